"""Simulators in worker processes: n processes of m simulators each (section 4.1 and figure 1 of Stooke & Abbeel).

Actions and rows live in shared memory; a semaphore each way says whose turn it is. Each process serves one group, is
fixed to one core and steps its simulators one after the other, so that a slow step of one is averaged over m.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Semaphore
from typing import Any

import numpy as np

from veldt.errors import SimulatorError
from veldt.runtime.processes import Child, acquire, forkserver
from veldt.runtime.shared import Layout, SharedArrays
from veldt.simulators import worker as worker_process
from veldt.simulators.in_process import split
from veldt.simulators.messages import pack, unpack
from veldt.simulators.seeding import episode_seed
from veldt.simulators.spec import SimulatorSpec
from veldt.simulators.stepper import Prefix, StepperSettings, Unfinished
from veldt.simulators.trajectory import Trajectory
from veldt.simulators.worker import CALL, RESET_ENDED, STEP, STOP, Wiring

_PRELOAD = ["veldt.simulators.worker", "gymnasium"]
_START_DEADLINE = (
    120.0  # seconds for a process to import and make its environments, besides their own timeout
)


def context_for(settings: StepperSettings) -> ForkServerContext:
    """The context whose server has the simulator's modules (and their compiled kernels) already loaded."""
    return forkserver(_PRELOAD + (["veldt.simulators.atari"] if settings.source.is_atari else []))


@dataclass
class _Worker:
    child: Child
    go: Semaphore
    done: Semaphore
    group: int
    part: slice


class WorkerSimulators:
    """See `Simulators`.

    Args:
        cores: the core of each process; its length is the number of processes, a multiple of `groups`.
        spin_s: how long a worker looks for its next command before it sleeps.
    """

    def __init__(
        self,
        settings: StepperSettings,
        spec: SimulatorSpec,
        steps: int,
        groups: int,
        cores: Sequence[int],
        spin_s: float,
    ) -> None:
        self._settings, self._spin_s, self._cores = settings, spin_s, list(cores)
        self._context = context_for(settings)
        width = settings.simulation.num_simulators
        self.trajectory = Trajectory(spec, steps, width, self._context)
        self.groups = split(width, groups)
        count = len(self._cores)
        self._board = SharedArrays(
            {
                "command": Layout((count, 2), "int64"),
                "progress": Layout((count, 3), "int64"),
                "failed": Layout((count,), "bool"),
            },
            self._context,
        )
        # Set by the sampler: the actions of a simulator's unfinished episode up to a row, to rebuild a dead worker's.
        self.actions_until: Callable[[int, int], np.ndarray | None] = lambda b, t: None
        self._notes: list[str] = []
        self._restarts_seen = 0
        self._workers: list[_Worker] = []
        try:
            for group, part in enumerate(self.groups):
                for piece in split(part.stop - part.start, count // groups):
                    whole = slice(part.start + piece.start, part.start + piece.stop)
                    self._workers.append(self._start_worker(len(self._workers), group, whole))
            for index in range(count):
                self._await_ready(index)
        except BaseException:
            self.close()
            raise
        self._by_group = [[i for i, w in enumerate(self._workers) if w.group == g] for g in range(groups)]

    def start(self) -> dict[int, Prefix]:
        answers = self._call_all("start")
        return {
            int(b): Prefix(actions, header["scores"][b])
            for header, arrays in answers
            for b, actions in arrays.items()
        }

    def step(self, group: int, t: int) -> None:
        command = self._board["command"]
        for index in self._by_group[group]:
            command[index] = STEP, t
            self._workers[index].go.release()

    def wait(self, group: int, t: int) -> None:
        for index in self._by_group[group]:
            self._finish(index, STEP, t)

    def reset_ended(self) -> None:
        for index, worker in enumerate(self._workers):
            self._board["command"][index] = RESET_ENDED, 0
            worker.go.release()

    def finish_resets(self) -> None:
        for index in range(len(self._workers)):
            self._finish(index, RESET_ENDED, 0)
        self.trajectory.finish_resets()

    def save(self) -> dict[int, bytes]:
        return {int(b): s.tobytes() for _, arrays in self._call_all("save") for b, s in arrays.items()}

    def rebuild(self, unfinished: Mapping[int, Unfinished]) -> list[str]:
        return [
            note
            for index, worker in enumerate(self._workers)
            for note in self._rebuild(
                index, {b: u for b, u in unfinished.items() if _within(b, worker.part)}, 0
            )
        ]

    def notes(self) -> list[str]:
        restarts = int(self.trajectory.restarts.sum())
        if restarts != self._restarts_seen:
            self._restarts_seen = restarts
            self._notes += [note for header, _ in self._call_all("notes") for note in header["notes"]]
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Asks the processes to end, and ends those that do not."""
        for index, worker in enumerate(self._workers):
            self._board["command"][index] = STOP, 0
            worker.go.release()
        for worker in self._workers:
            worker.child.end(deadline_s=1.0)
        self._workers = []

    def _start_worker(self, index: int, group: int, part: slice) -> _Worker:
        go, done = self._context.Semaphore(0), self._context.Semaphore(0)
        wiring = Wiring(index, self._board, go, done, self._cores[index], self._spin_s)
        child = Child(
            self._context,
            f"simulator process {index}",
            worker_process.run,
            wiring,
            self._settings,
            self.trajectory,
            part.start,
            part.stop - part.start,
        )
        return _Worker(child, go, done, group, part)

    def _await_ready(self, index: int) -> None:
        message = self._workers[index].child.receive(_START_DEADLINE + self._settings.simulation.env_timeout)
        if message is None or "error" in unpack(message)[0]:
            raise self._failure(index, message)

    def _finished(self, index: int) -> bool:
        worker = self._workers[index]
        timeout = self._settings.simulation.env_timeout
        before = self._board["progress"][index].copy()
        while not acquire(worker.done, timeout, alive=worker.child.alive):
            # The deadline is for one simulator: a process still moving through its simulators is slow, not hung.
            now = self._board["progress"][index].copy()
            if not worker.child.alive() or np.array_equal(now, before):
                return False
            before = now
        return not self._board["failed"][index]

    def _call_all(self, call: str) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        for index, worker in enumerate(self._workers):
            self._board["command"][index] = CALL, 0
            worker.child.pipe.send_bytes(pack({"call": call}))
            worker.go.release()
        return [self._reply(index) for index in range(len(self._workers))]

    def _reply(self, index: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        worker = self._workers[index]
        message, before = None, self._board["progress"][index].copy()
        while message is None:
            message = worker.child.receive(self._settings.simulation.env_timeout)
            now = self._board["progress"][index].copy()
            if message is None and (not worker.child.alive() or np.array_equal(now, before)):
                raise self._failure(index)
            before = now
        header, arrays = unpack(message)
        if "error" in header:
            raise self._failure(index, message)
        acquire(worker.done, 1.0)
        return header, arrays

    def _rebuild(self, index: int, unfinished: Mapping[int, Unfinished], row: int) -> list[str]:
        arrays = {}
        for b, how in unfinished.items():
            if how.state is not None:
                arrays[f"state/{b}"] = np.frombuffer(how.state, np.uint8)
            elif how.actions is not None:
                arrays[f"actions/{b}"] = how.actions
        worker = self._workers[index]
        self._board["command"][index] = CALL, 0
        worker.go.release()
        worker.child.pipe.send_bytes(pack({"call": "rebuild", "row": row}, arrays))
        return list(self._reply(index)[0]["notes"])

    def _finish(self, index: int, what: int, t: int) -> None:
        """Waits for the command `what` on row `t`; if that was asked for, replaces a process that dies or hangs."""
        culprits: set[int] = set()
        while not self._finished(index):
            failure = self._failure(index, row=t if what == STEP else None)
            restarts = self._settings.simulation.on_env_error == "restart"
            if not restarts or self._board["failed"][index] or failure.simulator in culprits:
                raise failure
            culprits.add(failure.simulator)
            self._recover(index, what, t, failure, culprits)

    def _recover(self, index: int, what: int, t: int, failure: SimulatorError, culprits: set[int]) -> None:
        """Puts a new process in the place of one, all simulators but the culprits back to row `t`, and tries again."""
        worker, slot, culprit = self._workers[index], self.trajectory, failure.simulator
        worker.child.kill()
        self._workers[index] = self._start_worker(index, worker.group, worker.part)
        self._await_ready(index)
        slot.restarts[culprit] += 1
        self._restarts_seen += 1
        unfinished = {}
        for b in range(worker.part.start, worker.part.stop):
            actions = self.actions_until(b, t)
            if b not in culprits and actions is not None:
                unfinished[b] = Unfinished(actions=actions)
        last = t if what == STEP else slot.steps
        if slot.ended[last, culprit]:
            slot.episode[last, culprit] += 1  # it failed in its reset: not that episode again
        self._notes += [f"{failure}; it was restarted", *self._rebuild(index, unfinished, t)]
        if what == RESET_ENDED:
            slot.ended[slot.steps, worker.part] = slot.ended[0, worker.part]
        self._board["command"][index] = what, t
        self._workers[index].go.release()

    def _failure(self, index: int, message: bytes | None = None, row: int | None = None) -> SimulatorError:
        """What became of a process (in a step of row `row`), naming environment, simulator and seed."""
        worker = self._workers[index]
        if message is None:
            message = worker.child.receive(0.5)
        if message is not None and "error" in (header := unpack(message)[0]):
            known = {key: header[key] for key in ("simulator", "seed", "details") if key in header}
            return SimulatorError(header["error"], **known)
        b, episode, _ = self._board["progress"][index].tolist()
        if row is not None and not self.trajectory.ended[row, b]:
            episode = int(self.trajectory.episode[row, b])
        seed = episode_seed(self._settings.run_seed, b, episode)
        timeout = self._settings.simulation.env_timeout
        if worker.child.alive():
            what = f"did not answer within {timeout:g} s (--env-timeout) and counts as hung"
        else:
            what = f"took its process with it, which {worker.child.cause_of_death()}"
        return SimulatorError(
            f"environment {self._settings.source.name}, simulator {b} (seed {seed}) {what}",
            simulator=b,
            seed=seed,
        )


def _within(b: int, part: slice) -> bool:
    return bool(part.start <= b < part.stop)
