"""Simulators in worker processes: n processes of m simulators each (section 4.1 and figure 1 of Stooke & Abbeel).

Actions and rows live in shared memory; a semaphore each way says whose turn it is. Each process is fixed to one core
and steps its simulators one after the other, so that a slow step of one is averaged over m. It serves every group:
while one group's actions are computed it steps the other's, so that a core never waits for a hand-over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from veldt.simulators.patience import Patience
from veldt.simulators.spec import SimulatorSpec
from veldt.simulators.stepper import ActionsUntil, Prefix, StepperSettings, Unfinished, hung, named
from veldt.simulators.trajectory import Trajectory
from veldt.simulators.worker import CALL, RESET_ENDED, RING, STEP, STOP, Wiring

_PRELOAD = ["veldt.simulators.worker", "gymnasium"]
_START_DEADLINE = (
    120.0  # seconds for a process to import and make its environments, besides their own timeout
)


def context_for(settings: StepperSettings) -> ForkServerContext:
    """The context whose server has the simulator's modules already loaded.

    Torch is not among them: simulators do not need it, and a server that loads it keeps every run waiting for a second.
    """
    atari = ["veldt.simulators.atari", "veldt.simulators.stacks"]
    return forkserver(_PRELOAD + (atari if settings.source.is_atari else []))


@dataclass
class _Worker:
    """A process with its simulators of each group, and the commands it has not finished, by group: (command, row)."""

    child: Child
    go: Semaphore
    done: list[Semaphore]
    parts: list[slice]
    trace: int = -1  # see `offer_trace`
    turn: int = 0
    pending: dict[int, tuple[int, int]] = field(default_factory=dict)


class WorkerSimulators:
    """See `Simulators`.

    Args:
        cores: the core of each process; its length is the number of processes.
        spin_s: how long a worker looks for its next command before it sleeps.
        actions_until: what simulators are rebuilt from when their process died.
        stacks: see `Trajectory`.
    """

    def __init__(
        self,
        settings: StepperSettings,
        spec: SimulatorSpec,
        steps: int,
        groups: int,
        cores: Sequence[int],
        spin_s: float,
        actions_until: ActionsUntil,
        stacks: bool = False,
    ) -> None:
        self._settings, self._spin_s, self._cores = settings, spin_s, list(cores)
        self._context = context_for(settings)
        width = settings.simulation.num_simulators
        self.trajectory = Trajectory(spec, steps, width, self._context, stacks)
        self.groups = split(width, groups)
        count = len(self._cores)
        self._board = SharedArrays(
            {
                "commands": Layout((count, RING, 3), "int64"),
                "progress": Layout((count, 3), "int64"),
                "failed": Layout((count,), "bool"),
            },
            self._context,
        )
        self._actions_until = actions_until
        self._notes: list[str] = []
        self._restarts = settings.simulation.on_env_error == "restart"
        self._patience = Patience()
        self._restarts_seen = 0
        self._row = [0] * groups  # the row each group is at
        self._culprits: set[tuple[int, int]] = (
            set()
        )  # (simulator, row) whose process was replaced in this rollout
        self._workers: list[_Worker] = []
        try:
            for index, parts in enumerate(deal(self.groups, count)):
                self._workers.append(self._start_worker(index, parts))
            for index in range(count):
                self._await_ready(index)
        except BaseException:
            self.close()
            raise
        self._by_group = [
            [i for i, worker in enumerate(self._workers) if _width(worker.parts[group])]
            for group in range(groups)
        ]

    def start(self) -> dict[int, Prefix]:
        answers = self._call_all("start")
        return {
            int(b): Prefix(actions, header["scores"][b])
            for header, arrays in answers
            for b, actions in arrays.items()
        }

    def step(self, group: int, t: int) -> None:
        for index in self._by_group[group]:
            self._post(index, group, STEP, t)

    def wait(self, group: int, t: int) -> None:
        for index in self._by_group[group]:
            self._finish(index, group)
        self._row[group] = t + 1

    def reset_ended(self) -> None:
        for index in range(len(self._workers)):
            self._post(index, 0, RESET_ENDED, 0)

    def carry_over(self) -> None:
        self.trajectory.carry_over()
        self._row = [0] * len(self.groups)
        self._culprits.clear()

    def finish_resets(self) -> None:
        for index in range(len(self._workers)):
            self._finish(index, 0)
        self.trajectory.finish_resets()

    def save(self) -> dict[int, bytes]:
        return {int(b): s.tobytes() for _, arrays in self._call_all("save") for b, s in arrays.items()}

    def rebuild(self, unfinished: Mapping[int, Unfinished]) -> list[str]:
        return [
            note
            for index, worker in enumerate(self._workers)
            for note in self._rebuild(index, {b: u for b, u in unfinished.items() if b in _members(worker)})
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
        for index in range(len(self._workers)):
            self._post(index, 0, STOP, 0)
        for worker in self._workers:
            worker.child.end(deadline_s=1.0)
        self._workers = []

    def _post(self, index: int, group: int, what: int, t: int) -> None:
        worker = self._workers[index]
        self._board["commands"][index, worker.turn] = what, group, t
        worker.turn = (worker.turn + 1) % RING
        if what in (STEP, RESET_ENDED):  # a call is answered through the pipe
            worker.pending[group] = what, t
        worker.go.release()

    def _start_worker(self, index: int, parts: list[slice]) -> _Worker:
        go, done = self._context.Semaphore(0), [self._context.Semaphore(0) for _ in parts]
        wiring = Wiring(index, self._board, go, done, self._cores[index], self._spin_s)
        child = Child(
            self._context,
            f"simulator process {index}",
            worker_process.run,
            wiring,
            self._settings,
            self.trajectory,
            parts,
        )
        return _Worker(child, go, done, parts)

    def _await_ready(self, index: int) -> None:
        message = self._workers[index].child.receive(_START_DEADLINE + self._settings.simulation.env_timeout)
        if message is None or "error" in (header := unpack(message)[0]):
            raise self._failure(index, message)
        self._workers[index].trace = header["trace"]

    def _finished(self, index: int, group: int) -> bool:
        """Waits for a worker's command of a group. False if it failed, died or hangs."""
        worker = self._workers[index]
        if not worker.done[group].acquire(False) and not self._awaited(index, worker, group):
            return False
        return not self._board["failed"][index]

    def _awaited(self, index: int, worker: _Worker, group: int) -> bool:
        timeout, progress = self._settings.simulation.env_timeout, self._board["progress"][index]
        before = progress.copy()
        while not acquire(worker.done[group], timeout, alive=worker.child.alive):
            # The deadline is for one simulator: a process still moving through its simulators is slow, not hung.
            now = progress.copy()
            if not worker.child.alive() or np.array_equal(now, before):
                return False
            before = now
        return True

    def _call_all(self, call: str) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        for index, worker in enumerate(self._workers):
            if not worker.child.alive() and self._restarts:
                self._restart(index, self._failure(index))
            self._send(index, pack({"call": call}))
        return [self._reply(index) for index in range(len(self._workers))]

    def _send(self, index: int, message: bytes) -> None:
        try:
            self._workers[index].child.pipe.send_bytes(message)
        except OSError:
            raise self._failure(index) from None
        self._post(index, 0, CALL, 0)

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
        return header, arrays

    def _rebuild(self, index: int, unfinished: Mapping[int, Unfinished]) -> list[str]:
        arrays = {}
        for b, how in unfinished.items():
            if how.state is not None:
                arrays[f"state/{b}"] = np.frombuffer(how.state, np.uint8)
            elif how.actions is not None:
                arrays[f"actions/{b}"] = how.actions
        self._send(index, pack({"call": "rebuild", "rows": self._row}, arrays))
        return list(self._reply(index)[0]["notes"])

    def _finish(self, index: int, group: int) -> None:
        """Waits for a worker's command of a group; if that was asked for, replaces a process that dies or hangs."""
        while not self._finished(index, group):
            failure = self._failure(index)
            if not self._restarts or self._board["failed"][index]:
                raise failure
            self._restart(index, failure)
        del self._workers[index].pending[group]

    def _restart(self, index: int, failure: SimulatorError) -> None:
        """Replaces a process that died or hangs, unless its culprit did that before in the same row, or for ever."""
        b = failure.simulator
        row = self._row[self._group_of(b)]
        age, episode = int(self.trajectory.age[row, b]), int(self.trajectory.episode[row, b])
        if (b, row) in self._culprits or self._patience.is_over(b, episode, age):
            raise failure
        self._culprits.add((b, row))
        self._recover(index, failure)

    def _recover(self, index: int, failure: SimulatorError) -> None:
        """Puts a new process in the place of one, its simulators but the culprits back to their rows, and goes on."""
        dead, slot, culprit = self._workers[index], self.trajectory, failure.simulator
        dead.child.kill()
        self._workers[index] = self._start_worker(index, dead.parts)
        self._await_ready(index)
        slot.restarts[culprit] += 1
        self._restarts_seen += 1
        unfinished, resets = {}, (RESET_ENDED, 0) in dead.pending.values()
        for part, row in zip(dead.parts, self._row, strict=True):
            for b in range(part.start, part.stop):
                actions = self._actions_until(b, row)
                if (b, row) not in self._culprits and actions is not None:
                    unfinished[b] = Unfinished(actions=actions)
        last = slot.steps if resets else self._row[self._group_of(culprit)]
        if slot.ended[last, culprit]:
            slot.episode[last, culprit] += 1  # it failed in its reset: not that episode again
        self._notes += [f"{failure}; it was restarted", *self._rebuild(index, unfinished)]
        if resets:
            for part in dead.parts:
                slot.ended[slot.steps, part] = slot.ended[0, part]
        for group, (what, t) in dead.pending.items():
            self._post(index, group, what, t)

    def _group_of(self, b: int) -> int:
        return next(group for group, part in enumerate(self.groups) if part.start <= b < part.stop)

    def _failure(self, index: int, message: bytes | None = None) -> SimulatorError:
        """What became of a process, naming environment, simulator and seed."""
        worker = self._workers[index]
        if message is None:
            message = worker.child.receive(0.5)
        if message is not None and "error" in (header := unpack(message)[0]):
            known = {key: header[key] for key in ("simulator", "seed", "details") if key in header}
            return SimulatorError(header["error"], **known)
        b, episode, _ = self._board["progress"][index].tolist()
        group = self._group_of(b)
        command, row = worker.pending.get(group, (CALL, 0))
        if command == STEP and not self.trajectory.ended[row, b]:
            episode = int(self.trajectory.episode[row, b])
        if worker.child.alive():
            return hung(self._settings, np.array([b, episode]), worker.child.stack(worker.trace))
        return named(
            self._settings, b, episode, f"took its process with it, which {worker.child.cause_of_death()}"
        )


def deal(groups: Sequence[slice], processes: int) -> list[list[slice]]:
    """Shares the simulators of each group out among processes: [process][group], contiguous slices.

    A group's remainder goes to the processes after those that took the remainder of the group before, so that no
    process has two simulators more than another, nor none while another has two.
    """
    shares: list[list[slice]] = [[] for _ in range(processes)]
    first = 0
    for group in groups:
        each, more = divmod(group.stop - group.start, processes)
        begin = group.start
        for process, share in enumerate(shares):
            end = begin + each + ((process - first) % processes < more)
            share.append(slice(begin, end))
            begin = end
        first = (first + more) % processes
    return shares


def _width(part: slice) -> int:
    return int(part.stop - part.start)


def _members(worker: _Worker) -> set[int]:
    return {b for part in worker.parts for b in range(part.start, part.stop)}
