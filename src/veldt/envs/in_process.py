"""Envs in the calling process: for debugging, for tests, and for environments that are faster than a message."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Protocol

from veldt.envs.action_replay import ActionPrefix, Unfinished
from veldt.envs.failures import hung
from veldt.envs.stepper import Stepper
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.runtime.activity import Record
from veldt.runtime.watchdog import Watchdog, time_to_close
from veldt.user_code.torch_state import users_torch


class VectorEnvs(Protocol):
    """All envs of a sampler. Groups of envs are stepped through the rows of a trajectory slot.

    `groups` are the slices of envs that step together. `step` only begins a step; `wait` returns when it is done.
    `wait` (and the rarer calls) raise the errors of environments as EnvError.
    """

    trajectory: Trajectory
    groups: list[slice]

    def start(self) -> dict[int, ActionPrefix]:
        """Begins the first episodes. Returns by env the random actions already played (see `Stepper.start`)."""

    def step(self, group: int, t: int) -> None:
        """Begins step `t` of a group: from row t and its actions to row t + 1."""

    def wait(self, group: int, t: int) -> None:
        """Returns when row t + 1 of a group is complete. EnvError if an environment failed."""

    def reset_ended(self) -> None:
        """Begins the resets of the masked envs (wait-reset); `finish_resets` waits for them."""

    def start_next_rollout(self) -> None:
        """Copies the trajectory's last row to the first: the next rollout begins where this one ended."""

    def finish_resets(self) -> None:
        """Waits for `reset_ended`, and copies the first observations into the first row."""

    def save(self) -> dict[int, bytes]:
        """Returns the saved states by env; envs without a state are rebuilt from their actions."""

    def rebuild(self, unfinished: Mapping[int, Unfinished]) -> list[str]:
        """Puts all envs back to the slot's first row. Returns notes about episodes that could not be continued."""

    def notes(self) -> list[str]:
        """Returns sentences about restarts since the last call."""

    def close(self) -> None:
        """Closes all envs and ends their processes."""


class InProcessEnvs:
    """See `VectorEnvs`. All work is done in `step`."""

    def __init__(self, settings: StepperSettings, trajectory: Trajectory, groups: int) -> None:
        self.trajectory = trajectory
        self.groups = split(trajectory.width, groups)
        self._name = f"environment {settings.source.name}"
        self._record = Record(
            self._name,
            width=trajectory.width,
            first=settings.first,
            can_be_apart=True,
            is_final=settings.envs.on_env_error == "stop",
        )
        self._progress, self._busy = self._record.progress, self._record.busy
        self._watchdog = Watchdog(
            settings.envs.env_timeout,
            self._progress.tobytes,
            lambda: str(hung(settings, *self._progress[:2].tolist())),
            " (--env-timeout)",
            is_final=settings.envs.on_env_error == "stop",
        )
        try:
            with self._watched():
                self._steppers = [
                    Stepper(settings, trajectory, part, self._progress, self._record.episodes)
                    for part in self.groups
                ]
        except BaseException:
            self._watchdog.close()
            self._record.close()
            raise

    def start(self) -> dict[int, ActionPrefix]:
        with self._watched():
            return {b: prefix for stepper in self._steppers for b, prefix in stepper.start().items()}

    def step(self, group: int, t: int) -> None:
        # Not a context manager: it would take a tenth of a small step's time.
        self._watchdog.watching, self._busy[0] = True, 1
        users_torch.enter()
        try:
            self._steppers[group].step(t)
        finally:
            users_torch.leave()
            self._watchdog.watching, self._busy[0] = False, 0

    def wait(self, group: int, t: int) -> None:
        pass

    def reset_ended(self) -> None:
        with self._watched():
            for stepper in self._steppers:
                stepper.reset_ended()

    def start_next_rollout(self) -> None:
        self.trajectory.start_next_rollout()

    def finish_resets(self) -> None:
        self.trajectory.finish_resets()

    def save(self) -> dict[int, bytes]:
        return {b: state for stepper in self._steppers for b, state in stepper.save().items()}

    def rebuild(self, unfinished: Mapping[int, Unfinished]) -> list[str]:
        with self._watched():
            return [note for stepper in self._steppers for note in stepper.rebuild(unfinished, 0)]

    def notes(self) -> list[str]:
        return [note for stepper in self._steppers for note in stepper.take_notes()]

    def close(self) -> None:
        self._watchdog.close()
        self._busy[0] = 1
        with time_to_close(self._name):
            for stepper in self._steppers:
                if not stepper.close():
                    break
        self._record.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        self._watchdog.watching, self._busy[0] = True, 1
        try:
            with users_torch:
                yield
        finally:
            self._watchdog.watching, self._busy[0] = False, 0


def split(count: int, parts: int) -> list[slice]:
    """Splits `count` things into `parts` contiguous slices of nearly equal size."""
    edges = [count * i // parts for i in range(parts + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
