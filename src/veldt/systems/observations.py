"""From a trajectory slot to a network's input: views where possible, stacks made at use, bytes moved once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from veldt.algorithms.rollout import Observation
from veldt.functional.frames import stack_frames
from veldt.simulators.spec import SimulatorSpec
from veldt.simulators.trajectory import Trajectory


class SlotObservations:
    """See `Observations`. On the CPU everything is a view of the slot; on an accelerator, a copy of it.

    `upload` has to be called when the slot is full and before `rows` or `last`. Stacks of frames are taken from the
    slot where it has them, and else made here (on an accelerator, from the single frames that cross the bus).
    """

    def __init__(self, trajectory: Trajectory, device: torch.device) -> None:
        self._trajectory, self._device = trajectory, device
        self._host = {name: torch.from_numpy(array) for name, array in trajectory.observation.items()}
        self._host_age = torch.from_numpy(trajectory.age)
        self._frames, self._age = self._host, self._host_age
        self._fields = trajectory.spec.observation
        # A row on the CPU is the same memory in every rollout: what is seen of it is made once.
        self._views: dict[tuple[int, int, int], Observation] = {}
        self._stacks = {name: torch.from_numpy(array) for name, array in trajectory.stacks.items()}

    def upload(self) -> None:
        if self._device.type != "cpu":
            self._frames = {name: array.to(self._device) for name, array in self._host.items()}
            self._age = self._host_age.to(self._device)

    def row(self, t: int, part: slice) -> Observation:
        """Observations of row `t`, simulators `part`, as the simulators have just written them."""
        key = t, part.start, part.stop
        if key in self._views:
            return self._views[key]
        history, is_view = self._trajectory.history, self._device.type == "cpu"
        out = {}
        for name, field in self._fields.items():
            if name in self._stacks:
                stacks = self._stacks[name]
                out[name] = stacks[t % len(stacks), part].permute(0, 3, 1, 2)
                continue
            first = history - field.stack + 1 + t
            frames = self._host[name][first : first + field.stack, part].to(self._device)
            if field.stack == 1:
                out[name] = frames[0]
                continue
            is_view = False
            age = self._host_age[t : t + 1, part].to(self._device)
            b_N = torch.arange(part.stop - part.start, device=self._device)
            out[name] = stack_frames(frames.contiguous(), age, field.stack, torch.zeros_like(b_N), b_N)
        observation = self._observation(out)
        if is_view:
            self._views[key] = observation
        return observation

    def rows(self, index_N: Tensor | None) -> Observation:
        trajectory = self._trajectory
        width, history = trajectory.width, trajectory.history
        out = {}
        for name, field in self._fields.items():
            if index_N is None and name in self._stacks and len(self._stacks[name]) > trajectory.steps:
                out[name] = self._stacks[name][: trajectory.steps].flatten(0, 1).permute(0, 3, 1, 2)
                continue
            frames = self._frames[name][history - field.stack + 1 :]
            if field.stack == 1:
                flat = frames[: trajectory.steps].flatten(0, 1)
                out[name] = flat if index_N is None else flat[index_N]
                continue
            index = (
                torch.arange(trajectory.steps * width, device=frames.device) if index_N is None else index_N
            )
            t_N = torch.div(index, width, rounding_mode="floor")
            out[name] = stack_frames(frames, self._age, field.stack, t_N, index % width)
        return self._observation(out)

    def last(self) -> Observation:
        return self.row(self._trajectory.steps, slice(0, self._trajectory.width))

    def _observation(self, fields: dict[str, Any]) -> Observation:
        return fields if self._trajectory.spec.is_dict else fields[""]


def blank_observation(spec: SimulatorSpec, rows: int, device: torch.device) -> Observation:
    """Zeros as the network takes them, [rows, ...], in the memory layout that they have in training."""
    fields = {}
    for name, field in spec.observation.items():
        fields[name] = torch.zeros(
            rows, *field.network_shape, dtype=getattr(torch, field.dtype), device=device
        )
        if field.stack > 1:
            fields[name] = fields[name].contiguous(memory_format=torch.channels_last)
    return fields if spec.is_dict else fields[""]
