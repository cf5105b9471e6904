"""Unrolls of several actors side by side, for a learner in another process.

slot of actor 3 [T+1, W] ─┐
slot of actor 0 [T+1, W] ─┼─► [T+1, B], B = W x slots
slot of actor 3 [T+1, W] ─┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation, RecurrentRollout, Rollout
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.envs.trajectory import STEP_FLAGS, Rows, row_layouts
from veldt.exchange.slots import Arrays
from veldt.functional.frames import stack_frames
from veldt.runtime.devices import to_device
from veldt.runtime.shared import Layout

# The array with each env's running discounted return after each step (`learning/normalisation.py`).
RUNNING_RETURN = "reward/running_return"


def unroll_layouts(
    spec: EnvSpec, steps: int, width: int, parameters: int, recurrent_size: int, *, with_returns: bool = False
) -> dict[str, Layout]:
    """The arrays of an unroll: those of `Rows`, the actor's policy parameters [T, B, P] and, if the network is
    recurrent, its state "initial_recurrent_state" [B, M] before the first row.

    Args:
        with_returns: whether they include the running return (RUNNING_RETURN).
    """
    layouts = row_layouts(spec, steps, width) | {"policy": Layout((steps, width, parameters), "float32")}
    if with_returns:
        layouts[RUNNING_RETURN] = returns_layout(steps, width)
    return layouts | (
        {"initial_recurrent_state": Layout((width, recurrent_size), "float32")} if recurrent_size else {}
    )


def returns_layout(steps: int, width: int) -> Layout:
    """The layout of RUNNING_RETURN: float64 [T, B]."""
    return Layout((steps, width), "float64")


def env_axis(name: str) -> int:
    """The env axis of an unroll's array."""
    return {"flags": 2, "initial_recurrent_state": 0, "final_recurrent_state": 0}.get(name, 1)


class Unrolls:
    """A batch of unrolls, [T+1, B, ...]; `rollout` converts it to the input of an algorithm.

    Args:
        arrays: the arrays of the whole batch, by the names of `unroll_layouts`. They may include other extras of `act`,
            [T, B, ...] each, and "final_recurrent_state", the recurrent state [B, M] after the last row.
    """

    def __init__(self, spec: EnvSpec, arrays: Arrays, device: torch.device) -> None:
        self._arrays = arrays
        self.rows = Rows(spec, arrays)
        self._device = device
        self._observations = _Observations(self.rows, device)
        others = row_layouts(spec, 0, 0).keys() | {
            "initial_recurrent_state",
            "final_recurrent_state",
            RUNNING_RETURN,
        }
        self._extra_names = [name for name in arrays if name not in others]

    @classmethod
    def allocate(cls, spec: EnvSpec, layouts: Mapping[str, Layout], device: torch.device) -> Unrolls:
        """Returns a batch of zeros, to be filled by `put`."""
        return cls(
            spec, {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}, device
        )

    @classmethod
    def stack(cls, spec: EnvSpec, slots: Sequence[Arrays], device: torch.device) -> Unrolls:
        """Returns a batch with copies of all `slots` side by side."""
        arrays = {
            name: np.concatenate([slot[name] for slot in slots], axis=env_axis(name)) for name in slots[0]
        }
        return cls(spec, arrays, device)

    def put(self, first: int, slot: Arrays) -> None:
        """Copies the unroll of W envs into columns `first` to first + W."""
        for name, array in self._arrays.items():
            axis, part = env_axis(name), slot[name]
            where = (slice(None),) * axis + (slice(first, first + part.shape[axis]),)
            np.copyto(array[where], part)

    @property
    def running_return(self) -> np.ndarray:
        """The running discounted return after each step, float64 [T, B]."""
        return self._arrays[RUNNING_RETURN]

    def rollout(self) -> Rollout:
        """Returns the batch on the device; valid until the next `put`."""
        rows = self.rows
        self._observations.renew()
        flags: dict[str, Any] = {name: self._tensor(getattr(rows, name)) for name in STEP_FLAGS}
        recurrent = None
        if "initial_recurrent_state" in self._arrays:
            last = self._arrays.get("final_recurrent_state")
            recurrent = RecurrentRollout(
                self._tensor(self._arrays["initial_recurrent_state"]),
                self._tensor(rows.episode_step == 0),
                None if last is None else self._tensor(last),
            )
        return Rollout(
            observations=self._observations,
            action=self._tensor(rows.action),
            reward=self._tensor(rows.reward),
            extras={name: self._tensor(self._arrays[name]) for name in self._extra_names},
            recurrent=recurrent,
            **flags,
        )

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(np.ascontiguousarray(array)), self._device)


class _Observations:
    """See `Observations`. Single frames are transferred to an accelerator once; stacks are made there on demand."""

    def __init__(self, rows: Rows, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._frames: dict[str, Tensor] = {}
        self._episode_step = torch.from_numpy(rows.episode_step)

    def renew(self) -> None:
        """Reads the present content of the rows."""
        self._frames = {
            name: to_device(torch.from_numpy(array), self._device)
            for name, array in self._rows.observation.items()
        }
        self._episode_step = to_device(torch.from_numpy(self._rows.episode_step), self._device)

    def rows(self, index_N: Tensor | None) -> Observation:
        return self._at(range(self._rows.steps * self._rows.width) if index_N is None else index_N)

    def last(self) -> Observation:
        steps, width = self._rows.steps, self._rows.width
        return self._at(range(steps * width, (steps + 1) * width))

    def _at(self, row_N: range | Tensor) -> Observation:
        spec = self._rows.spec
        fields = {name: self._field(name, field, row_N) for name, field in spec.observation.items()}
        return fields if spec.is_dict else fields[""]

    def _field(self, name: str, field: ArraySpec, row_N: range | Tensor) -> Tensor:
        rows = self._rows
        frames = self._frames[name][rows.history - field.stack + 1 :]
        if field.stack == 1:
            flat = frames.flatten(0, 1)
            return (
                flat[row_N.start : row_N.stop] if isinstance(row_N, range) else flat[row_N.to(self._device)]
            )
        if isinstance(row_N, range):
            row_N = torch.arange(row_N.start, row_N.stop, device=self._device)
        if self._device.type == "cpu":
            from veldt.envs.stacks import slot_frames, write_stacks  # here, because it loads numba

            out = torch.empty((len(row_N), *field.shape, field.stack), dtype=torch.uint8)
            frame_NK = slot_frames(rows.episode_step, row_N.numpy(), field.stack)
            flat_frames = frames.numpy().reshape(-1, *field.shape)
            write_stacks(flat_frames, frame_NK[None], out.numpy()[None], torch.get_num_threads())
            return out.permute(0, 3, 1, 2)
        row_N = row_N.to(self._device)
        t_N, b_N = torch.div(row_N, rows.width, rounding_mode="floor"), row_N % rows.width
        return stack_frames(frames, self._episode_step, field.stack, t_N, b_N)
