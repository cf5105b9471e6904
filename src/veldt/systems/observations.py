"""From a trajectory slot to a network's input: views where possible, stacks made at use, bytes moved once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation
from veldt.functional.frames import stack_frames
from veldt.simulators.trajectory import Trajectory


class SlotObservations:
    """See `Observations`. On the CPU everything is a view of the slot; on an accelerator, a copy of it.

    `upload` has to be called when the slot is full and before `rows` or `last`. Stacks are made in `stack_dtype`
    (uint8, or the torso's own precision where that saves a conversion).
    """

    def __init__(
        self, trajectory: Trajectory, device: torch.device, stack_dtype: torch.dtype = torch.uint8
    ) -> None:
        self._trajectory, self._device, self._stack_dtype = trajectory, device, stack_dtype
        self._host = {name: torch.from_numpy(array) for name, array in trajectory.observation.items()}
        self._host_age = torch.from_numpy(trajectory.age)
        self._frames, self._age = self._host, self._host_age
        self._fields = trajectory.spec.observation
        # On the CPU the stacks that were made to act are kept, so that learning from all rows need not make them again.
        self._stacks: dict[str, Tensor] = {}
        self._kept = torch.zeros(trajectory.steps + 1, trajectory.width, dtype=torch.bool)
        if device.type == "cpu":
            for name, field in self._fields.items():
                if field.stack > 1:
                    shape = (trajectory.steps + 1, trajectory.width, *field.shape, field.stack)
                    self._stacks[name] = torch.empty(shape, dtype=stack_dtype)

    def upload(self) -> None:
        if self._device.type != "cpu":
            self._frames = {name: array.to(self._device) for name, array in self._host.items()}
            self._age = self._host_age.to(self._device)

    def row(self, t: int, part: slice) -> Observation:
        """Observations of row `t`, simulators `part`, as the simulators have just written them."""
        history = self._trajectory.history
        if t == 0:
            self._kept[:, part] = False
        out = {}
        for name, field in self._fields.items():
            first = history - field.stack + 1 + t
            frames = self._host[name][first : first + field.stack, part]
            if field.stack == 1:
                out[name] = frames[0].to(self._device)
                continue
            b_N = torch.arange(part.start, part.stop)
            t_N = torch.full_like(b_N, t)
            kept = None
            if self._device.type == "cpu":
                frames, age = self._host[name][history - field.stack + 1 :], self._host_age
                kept = self._stacks[name][t, part]
            else:  # only this row crosses the bus
                frames, age = frames.to(self._device), self._host_age[t : t + 1, part].to(self._device)
                b_N = (b_N - part.start).to(self._device)
                t_N = torch.zeros_like(b_N)
            out[name] = stack_frames(frames, age, field.stack, t_N, b_N, self._stack_dtype, kept)
        self._kept[t, part] = True
        return self._observation(out)

    def rows(self, index_N: Tensor | None) -> Observation:
        trajectory = self._trajectory
        width, history = trajectory.width, trajectory.history
        all_kept = index_N is None and bool(self._kept[: trajectory.steps].all())
        out = {}
        for name, field in self._fields.items():
            if all_kept and name in self._stacks:
                out[name] = self._stacks[name][: trajectory.steps].flatten(0, 1).permute(0, 3, 1, 2)
                continue
            frames = self._frames[name][history - field.stack + 1 :]
            if field.stack == 1:
                flat = frames[: trajectory.steps].flatten(0, 1)
                out[name] = flat if index_N is None else flat[index_N]
                continue
            if index_N is None:
                index_N = torch.arange(trajectory.steps * width, device=frames.device)
            t_N = torch.div(index_N, width, rounding_mode="floor")
            out[name] = stack_frames(frames, self._age, field.stack, t_N, index_N % width, self._stack_dtype)
        return self._observation(out)

    def last(self) -> Observation:
        return self.row(self._trajectory.steps, slice(0, self._trajectory.width))

    def _observation(self, fields: dict[str, Any]) -> Observation:
        return fields if self._trajectory.spec.is_dict else fields[""]
