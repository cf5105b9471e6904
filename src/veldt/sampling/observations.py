"""From a trajectory buffer to the network's input: views where possible, stacks made on demand, bytes copied once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.functional.frames import stack_frames
from veldt.runtime.devices import to_device


class SlotObservations(ABC):
    """The observations of a trajectory buffer, while it is filled and when it is full; see `Observations`.

    Subclasses set `_frames`, tensors by field [history + T + 1, B, ...], on the CPU or on the device.
    """

    _frames: dict[str, Tensor]

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._fields, self._is_dict = trajectory.spec.observation, trajectory.spec.is_dict

    @abstractmethod
    def row(self, t: int, part: slice) -> Observation:
        """Returns observations [N, ...] of row `t`, envs `part`, which the envs have just written.

        In a rollout each row is requested once, in order; the last one by `last`.
        """

    @abstractmethod
    def rows(self, index_N: Tensor | None) -> Observation: ...

    @abstractmethod
    def start_next_rollout(self) -> None:
        """The last row, with its history, has become the first: see `Trajectory.start_next_rollout`."""

    def last(self) -> Observation:
        return self.row(self._trajectory.steps, slice(0, self._trajectory.width))

    def _first(self, field: ArraySpec) -> int:
        """Index of the oldest frame in row 0's stack."""
        return self._trajectory.history - field.stack + 1

    def _single(self, name: str, index_N: Tensor | None) -> Tensor:
        """Rows of a field without frame stacking."""
        first, steps = self._first(self._fields[name]), self._trajectory.steps
        flat = self._frames[name][first : first + steps].flatten(0, 1)
        return flat if index_N is None else flat[index_N]

    def _observation(self, fields: dict[str, Any]) -> Observation:
        return fields if self._is_dict else fields[""]


class OnCPU(SlotObservations):
    """Returns views of the buffer or of stacks that the envs have written; makes other stacks in one pass."""

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__(trajectory)
        self._frames = {name: torch.from_numpy(array) for name, array in trajectory.observation.items()}
        self._stacks = {name: torch.from_numpy(array) for name, array in trajectory.stacks.items()}
        # A row has the same address in every rollout, so its view is made only once.
        self._views: dict[tuple[int, int, int], Observation] = {}

    def row(self, t: int, part: slice) -> Observation:
        key = t, part.start, part.stop
        if key not in self._views:
            self._views[key] = self._observation({name: self._view(name, t, part) for name in self._fields})
        return self._views[key]

    def rows(self, index_N: Tensor | None) -> Observation:
        return self._observation({name: self._rows(name, index_N) for name in self._fields})

    def start_next_rollout(self) -> None:
        pass  # all are views of the buffer

    def _view(self, name: str, t: int, part: slice) -> Tensor:
        if name in self._stacks:
            stacks = self._stacks[name]
            return stacks[t % len(stacks), part].permute(0, 3, 1, 2)
        return self._frames[name][self._trajectory.history + t, part]

    def _rows(self, name: str, index_N: Tensor | None) -> Tensor:
        field, trajectory = self._fields[name], self._trajectory
        if field.stack == 1:
            return self._single(name, index_N)
        stacks = self._stacks[name]
        if index_N is None and len(stacks) > trajectory.steps:
            return stacks[: trajectory.steps].flatten(0, 1).permute(0, 3, 1, 2)
        from veldt.envs.stacks import slot_frames, write_stacks  # here, because it loads numba

        frames = trajectory.observation[name][self._first(field) :].reshape(-1, *field.shape)
        row_N = np.arange(trajectory.steps * trajectory.width) if index_N is None else index_N.numpy()
        out = torch.empty((len(row_N), *field.shape, field.stack), dtype=torch.uint8)
        frame_NK = slot_frames(trajectory.episode_step, row_N, field.stack)
        write_stacks(frames, frame_NK[None], out.numpy()[None], torch.get_num_threads())
        return out.permute(0, 3, 1, 2)


class OnAccelerator(SlotObservations):
    """Keeps a copy of the buffer on the device: each frame is transferred once, when its row is first requested."""

    def __init__(self, trajectory: Trajectory, device: torch.device) -> None:
        super().__init__(trajectory)
        self._host = {name: torch.from_numpy(array) for name, array in trajectory.observation.items()}
        self._host_episode_step = torch.from_numpy(trajectory.episode_step)
        self._frames = {name: torch.empty_like(array, device=device) for name, array in self._host.items()}
        self._episode_step = torch.empty_like(self._host_episode_step, device=device)
        self._has_history = False

    def start_next_rollout(self) -> None:
        history, steps = self._trajectory.history, self._trajectory.steps
        for frames in self._frames.values():
            frames[:history] = frames[steps : steps + history].clone()  # a short rollout's rows overlap
        self._has_history = True

    def row(self, t: int, part: slice) -> Observation:
        history = self._trajectory.history
        fresh = slice(history + t if t or self._has_history else 0, history + t + 1)
        self._transfer_episode_step(t, part)
        for name, frames in self._frames.items():
            frames[fresh, part] = self._transferred(name, fresh, part)
        return self._observation({name: self._row(name, t, part) for name in self._fields})

    def last(self) -> Observation:
        t, part = self._trajectory.steps, slice(0, self._trajectory.width)
        now = slice(self._trajectory.history + t, self._trajectory.history + t + 1)
        self._transfer_episode_step(t, part)
        fields = {}
        for name, field in self._fields.items():
            frames = self._transferred(name, now, part)
            if field.stack == 1:
                # Not written to the other rows: a loss may have used views of them, and needs them for its gradient.
                fields[name] = frames[0]
            else:
                self._frames[name][now] = frames
                fields[name] = self._row(name, t, part)
        return self._observation(fields)

    def _transfer_episode_step(self, t: int, part: slice) -> None:
        host = self._host_episode_step[t, part]
        self._episode_step[t, part] = to_device(host, self._episode_step.device)

    def _transferred(self, name: str, rows: slice, part: slice) -> Tensor:
        return to_device(self._host[name][rows, part], self._episode_step.device)

    def rows(self, index_N: Tensor | None) -> Observation:
        steps, width = self._trajectory.steps, self._trajectory.width
        row_N = torch.arange(steps * width, device=self._episode_step.device) if index_N is None else index_N
        t_N, b_N = torch.div(row_N, width, rounding_mode="floor"), row_N % width
        return self._observation(
            {
                name: self._single(name, index_N)
                if field.stack == 1
                else stack_frames(
                    self._frames[name][self._first(field) :], self._episode_step, field.stack, t_N, b_N
                )
                for name, field in self._fields.items()
            }
        )

    def _row(self, name: str, t: int, part: slice) -> Tensor:
        field, frames = self._fields[name], self._frames[name]
        if field.stack == 1:
            return frames[self._trajectory.history + t, part]
        b_N = torch.arange(part.start, part.stop, device=frames.device)
        return stack_frames(
            frames[self._first(field) :], self._episode_step, field.stack, torch.full_like(b_N, t), b_N
        )


def slot_observations(trajectory: Trajectory, device: torch.device) -> SlotObservations:
    """Returns the implementation for `device`."""
    return OnCPU(trajectory) if device.type == "cpu" else OnAccelerator(trajectory, device)


def as_network_input(spec: EnvSpec, fields: Mapping[str, Tensor]) -> Observation:
    """Returns stored rows as network input: stacks [N, H, W, K] as views [N, K, H, W] (channels-last)."""
    inputs = {
        name: fields[name].permute(0, 3, 1, 2) if field.stack > 1 else fields[name]
        for name, field in spec.observation.items()
    }
    return inputs if spec.is_dict else inputs[""]


def blank_observation(spec: EnvSpec, rows: int, device: torch.device) -> Observation:
    """Returns zeros as network input, [rows, ...], in the same memory layout as in training."""
    fields = {}
    for name, field in spec.observation.items():
        fields[name] = torch.zeros(
            rows, *field.network_shape, dtype=getattr(torch, field.dtype), device=device
        )
        if field.stack > 1:
            fields[name] = fields[name].contiguous(memory_format=torch.channels_last)
    return fields if spec.is_dict else fields[""]
