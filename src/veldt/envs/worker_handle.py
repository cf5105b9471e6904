"""The owner's handle of a worker process: sends commands, waits for their results, and explains failures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import numpy as np

from veldt.envs import worker
from veldt.envs.failures import hung, named
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.envs.worker import CALL, RESET_ENDED, RING, STEP, STOP, WorkerArgs
from veldt.errors import EnvError
from veldt.runtime.messages import unpack
from veldt.runtime.processes import Child, acquire, unlink_names
from veldt.runtime.shared import Layout, SharedArrays
from veldt.runtime.watchdog import leave_if_asked

_Result = TypeVar("_Result")

_START_DEADLINE = 120.0  # seconds to import and to make environments, besides their own timeout
_LOOK_S = 1.0  # between looks at the progress of a process that is awaited


def make_worker_arrays(workers: int, context: ForkServerContext) -> SharedArrays:
    """Makes the arrays that all workers share with their owner besides the slot; see `WorkerArgs`."""
    layouts = {
        "commands": Layout((workers, RING, 3), "int64"),
        "progress": Layout((workers, 4), "int64"),
        "failed": Layout((workers,), "bool"),
    }
    return SharedArrays(layouts, context)


class WorkerHandle:
    """One worker process, with its envs of each group.

    Args:
        index: the worker's index, and its row in `arrays`.
        core: the core to which the process is pinned.
        spin_s: how long the process spins for its next command before it sleeps.
        parts: its envs in each group.
    """

    def __init__(
        self,
        context: ForkServerContext,
        settings: StepperSettings,
        slot: Trajectory,
        arrays: SharedArrays,
        index: int,
        core: int,
        spin_s: float,
        parts: Sequence[slice],
    ) -> None:
        self.index, self.parts = index, parts
        # Unfinished steps and resets by group: (command, row).
        self.pending: dict[int, tuple[int, int]] = {}
        self._settings, self._slot = settings, slot
        self._commands, self._progress = arrays["commands"][index], arrays["progress"][index]
        self._failed = arrays["failed"]
        self._turn, self._trace, self._longest_s = 0, -1, 0.0
        self._go, self._done = context.Semaphore(0), [context.Semaphore(0) for _ in parts]
        arguments = WorkerArgs(index, arrays, self._go, self._done, core, spin_s)
        name = f"env process {index}"
        self._child = Child(context, name, worker.run, arguments, settings, slot, parts)

    def await_ready(self) -> None:
        """Waits until all environments are made. EnvError if one cannot be made."""
        message = self._awaited(self._child.receive, _START_DEADLINE + self._settings.envs.env_timeout)
        if message is None or "error" in (header := unpack(message)[0]):
            raise self.failure(message)
        self._trace = header["trace"]
        unlink_names([self._go, *self._done])

    @property
    def alive(self) -> bool:
        return self._child.alive()

    @property
    def was_killed(self) -> bool:
        """Whether a signal from outside ended or stopped the process."""
        return self._child.was_killed()

    @property
    def reported(self) -> bool:
        """Whether the worker itself reported an error."""
        return bool(self._failed[self.index])

    def post(self, what: int, group: int = 0, t: int = 0) -> None:
        """Posts a command (see `worker`) for row `t` of a group."""
        self._commands[self._turn] = what, group, t
        self._turn = (self._turn + 1) % RING
        if what in (STEP, RESET_ENDED):  # a call is answered through the pipe
            self.pending[group] = what, t
        self._go.release()

    def is_finished(self, group: int) -> bool:
        """Waits for a group's command. Returns False if it failed, or if the process died, hangs or was stopped."""
        done = self._done[group]
        if not done.acquire(False) and not self._awaited(
            lambda s: acquire(done, s, alive=lambda: not self._child.is_lost)
        ):
            return False
        return not self.reported

    def send(self, message: bytes) -> None:
        """Makes a call; `reply` returns its answer, and raises EnvError if the process has died, even before."""
        with contextlib.suppress(OSError):
            self._child.pipe.send_bytes(message)
        self.post(CALL)

    def reply(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Waits for the answer to a call. EnvError if the answer is an error, or if the process died or hangs."""
        message = self._awaited(self._child.receive)
        if message is None:
            raise self.failure()
        header, arrays = unpack(message)
        if "error" in header:
            raise self.failure(message)
        return header, arrays

    def failure(self, message: bytes | None = None) -> EnvError:
        """Returns the error in `message`, or why the process died or hangs, with environment, env and seed."""
        if message is None:
            message = self._child.receive(0.5)
        if message is not None and "error" in (header := unpack(message)[0]):
            known = {key: header[key] for key in ("env", "seed", "details") if key in header}
            return EnvError(header["error"], **known)
        b, episode = self._progress[:2].tolist()
        command, row = self.pending.get(self._group_of(b), (CALL, 0))
        where = "" if command == CALL else " in a reset"
        if command == STEP and not self._slot.is_last[row, b]:
            episode, where = int(self._slot.episode[row, b]), f" in step {self._slot.episode_step[row, b]}"
        if self.alive and not self._child.is_stopped:
            return hung(self._settings, b, episode, self._child.stack(self._trace), where)
        what = (
            f"did not answer{where}: its process" if self.alive else f"ended its process{where}: the process"
        )
        return named(self._settings, b, episode, f"{what} {self._child.cause_of_death()}")

    def stop(self) -> None:
        """Asks the process to end; `end` waits for it."""
        self.post(STOP)

    def end(self, deadline_s: float) -> None:
        """Waits for the process to end, and kills it after the deadline."""
        self._child.end(deadline_s)

    def _awaited(self, attempt: Callable[[float], _Result], deadline_s: float | None = None) -> _Result:
        """Returns the result of `attempt`, called with a timeout in seconds; falsy if the process died or hangs.

        Args:
            deadline_s: seconds without progress after which it counts as hung; None: the environment's own timeout.
        """
        deadline_s = self._settings.envs.env_timeout if deadline_s is None else deadline_s
        timeout_s, silent_s, before = min(deadline_s, _LOOK_S), 0.0, self._progress.copy()
        while not (result := attempt(timeout_s)) and not self._child.is_lost:
            # Adds up timeouts instead of reading a clock: see `processes.acquire`.
            silent_s, now = silent_s + timeout_s, self._progress.copy()
            # The deadline is for one env: a process that still moves on through its envs is slow, not hung.
            if not np.array_equal(now, before):
                self._longest_s = max(self._longest_s, silent_s)
                silent_s, before = 0.0, now
            elif silent_s >= deadline_s or self._child.is_closed:
                break
            else:
                leave_if_asked(silent_s, self._longest_s)
        return result

    def _group_of(self, b: int) -> int:
        return next((group for group, part in enumerate(self.parts) if part.start <= b < part.stop), 0)
