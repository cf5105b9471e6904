"""Envs in worker processes: n processes of m envs each (section 4.1 and figure 1 of Stooke & Abbeel).

Actions and rows are in shared memory; a semaphore in each direction hands over the turn. Each process is pinned to one
core and steps its envs one after the other, so that a slow step of one env is averaged over m. Each process serves all
groups: while one group's actions are computed it steps the other group, so that a core never waits for a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from typing import Any

import numpy as np

from veldt.envs.action_replay import ActionPrefix, ActionsUntil, Unfinished
from veldt.envs.failures import Patience, failed_in_a_row
from veldt.envs.in_process import split
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.envs.worker import RESET_ENDED, STEP
from veldt.envs.worker_handle import WorkerHandle, make_worker_arrays
from veldt.errors import EnvError
from veldt.runtime.messages import pack
from veldt.runtime.processes import forkserver

_PRELOAD = ["veldt.envs.worker", "gymnasium"]


def context_for(settings: StepperSettings) -> ForkServerContext:
    """Returns the context whose fork server has already loaded the envs' modules.

    Torch is not among them: envs do not need it, and loading it would delay the start of every run by a second.
    """
    atari = ["veldt.envs.atari", "veldt.envs.stacks"]
    return forkserver(_PRELOAD + (atari if settings.source.is_atari else []))


class WorkerEnvs:
    """See `VectorEnvs`.

    Args:
        cores: the core of each process; its length is the number of processes.
        spin_s: see `WorkerHandle`.
        actions_until: the actions from which envs are rebuilt after their process died.
        stacks: see `Trajectory`.
    """

    def __init__(
        self,
        settings: StepperSettings,
        spec: EnvSpec,
        steps: int,
        groups: int,
        cores: Sequence[int],
        spin_s: float,
        actions_until: ActionsUntil,
        stacks: bool = False,
    ) -> None:
        self._settings, self._spin_s, self._cores = settings, spin_s, list(cores)
        self._context = context_for(settings)
        width = settings.envs.num_envs
        self.trajectory = Trajectory(spec, steps, width, self._context, stacks)
        self.groups = split(width, groups)
        self._worker_arrays = make_worker_arrays(len(self._cores), self._context)
        self._actions_until = actions_until
        self._notes: list[str] = []
        self._restarts = settings.envs.on_env_error == "restart"
        self._patience = Patience()
        self._restarts_seen = 0
        self._row = [0] * groups  # the current row of each group
        # (env, row) pairs whose process was replaced in this rollout
        self._culprits: set[tuple[int, int]] = set()
        self._workers: list[WorkerHandle] = []
        try:
            for index, parts in enumerate(deal(self.groups, len(self._cores))):
                self._workers.append(self._start_worker(index, parts))
            for worker in self._workers:
                worker.await_ready()
        except BaseException:
            self.close()
            raise
        # The workers with envs of a group; by index, since a worker may be replaced.
        self._by_group = [
            [worker.index for worker in self._workers if _width(worker.parts[group])]
            for group in range(groups)
        ]

    def start(self) -> dict[int, ActionPrefix]:
        for worker in self._workers:
            worker.send(pack({"call": "start"}))  # none has an episode that could be begun again
        answers = [worker.reply() for worker in self._workers]
        return {
            int(b): ActionPrefix(actions, header["scores"][b])
            for header, arrays in answers
            for b, actions in arrays.items()
        }

    def step(self, group: int, t: int) -> None:
        for index in self._by_group[group]:
            self._workers[index].post(STEP, group, t)

    def wait(self, group: int, t: int) -> None:
        for index in self._by_group[group]:
            self._finish(index, group)
        self._row[group] = t + 1

    def reset_ended(self) -> None:
        for worker in self._workers:
            worker.post(RESET_ENDED)

    def start_next_rollout(self) -> None:
        self.trajectory.start_next_rollout()
        self._row = [0] * len(self.groups)
        self._culprits.clear()

    def finish_resets(self) -> None:
        for index in range(len(self._workers)):
            self._finish(index, 0)
        self.trajectory.finish_resets()

    def save(self) -> dict[int, bytes]:
        return {int(b): s.tobytes() for _, arrays in self._call_all("save") for b, s in arrays.items()}

    def rebuild(self, unfinished: Mapping[int, Unfinished]) -> list[str]:
        return [note for worker in self._workers for note in self._rebuild(worker, unfinished)]

    def notes(self) -> list[str]:
        restarts = int(self.trajectory.restarts.sum())
        if restarts != self._restarts_seen:
            self._restarts_seen = restarts
            self._notes += [note for header, _ in self._call_all("notes") for note in header["notes"]]
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Asks the processes to end, and kills those that do not."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.end(deadline_s=1.0)
        self._workers = []

    def _start_worker(self, index: int, parts: Sequence[slice]) -> WorkerHandle:
        return WorkerHandle(
            self._context,
            self._settings,
            self.trajectory,
            self._worker_arrays,
            index,
            self._cores[index],
            self._spin_s,
            parts,
        )

    def _call_all(self, call: str) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        for index in range(len(self._workers)):
            self._call(index, call)
        return [self._answer(index, call) for index in range(len(self._workers))]

    def _call(self, index: int, call: str) -> None:
        self._workers[index].send(pack({"call": call}))

    def _answer(self, index: int, call: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Waits for the answer; if restarts are on, a process that has died or hangs is replaced and called again."""
        while True:
            worker = self._workers[index]
            try:
                return worker.reply()
            except EnvError as failure:
                if not self._restarts or worker.reported:
                    raise
                self._restart(index, failure)
            self._call(index, call)

    def _rebuild(self, worker: WorkerHandle, unfinished: Mapping[int, Unfinished]) -> list[str]:
        arrays = {}
        for b in _members(worker.parts) & unfinished.keys():
            how = unfinished[b]
            if how.state is not None:
                arrays[f"state/{b}"] = np.frombuffer(how.state, np.uint8)
            elif how.actions is not None:
                arrays[f"actions/{b}"] = how.actions
        worker.send(pack({"call": "rebuild", "rows": self._row}, arrays))
        return list(worker.reply()[0]["notes"])

    def _finish(self, index: int, group: int) -> None:
        """Waits for a worker's command of a group; if restarts are on, replaces a process that dies or hangs."""
        while not self._workers[index].is_finished(group):
            worker = self._workers[index]
            failure = worker.failure()
            if not self._restarts or worker.reported:
                raise failure
            self._restart(index, failure)
        del self._workers[index].pending[group]

    def _restart(self, index: int, failure: EnvError) -> None:
        """Replaces a dead or hung process, unless its culprit env failed in this row before, or in every episode."""
        b = failure.env
        row = self._row[self._group_of(b)]
        episode_step, episode = (
            int(self.trajectory.episode_step[row, b]),
            int(self.trajectory.episode[row, b]),
        )
        # A process that is killed from outside again and again says nothing about its env.
        counts = episode_step == 0 or not self._workers[index].was_killed
        if counts and self._patience.is_over(b, episode):
            raise failed_in_a_row(failure)
        if (b, row) in self._culprits:
            raise failure
        self._culprits.add((b, row))
        self._recover(index, failure)

    def _recover(self, index: int, failure: EnvError) -> None:
        """Starts a new process in place of a dead one, and puts its envs (not the culprits) back to their rows."""
        dead, slot, culprit = self._workers[index], self.trajectory, failure.env
        dead.end(deadline_s=0.0)
        self._workers[index] = worker = self._start_worker(index, dead.parts)
        worker.await_ready()
        slot.restarts[culprit] += 1
        self._restarts_seen += 1
        unfinished, resets = {}, (RESET_ENDED, 0) in dead.pending.values()
        for part, row in zip(dead.parts, self._row, strict=True):
            for b in range(part.start, part.stop):
                actions = self._actions_until(b, row)
                if (b, row) not in self._culprits and actions is not None:
                    unfinished[b] = Unfinished(actions=actions)
        last = slot.steps if resets else self._row[self._group_of(culprit)]
        if slot.is_last[last, culprit]:
            slot.episode[last, culprit] += 1  # it failed in its reset: begin the episode after that
        self._notes += [f"{failure}; it was restarted", *self._rebuild(worker, unfinished)]
        if resets:
            for part in dead.parts:
                slot.is_last[slot.steps, part] = slot.is_last[0, part]
        for group, (what, t) in dead.pending.items():
            worker.post(what, group, t)

    def _group_of(self, b: int) -> int:
        return next(group for group, part in enumerate(self.groups) if part.start <= b < part.stop)


def deal(groups: Sequence[slice], processes: int) -> list[list[slice]]:
    """Divides the envs of each group among the processes: [process][group], contiguous slices.

    A group's remainder goes to the processes after those that took the previous group's remainder, so that the
    numbers of envs per process differ by at most one.
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


def _members(parts: Sequence[slice]) -> set[int]:
    return {b for part in parts for b in range(part.start, part.stop)}
