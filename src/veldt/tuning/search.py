"""Runs the trials of a search side by side: each is drawn, trained, looked at on its way, and noted in the study."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veldt.errors import UsageError, VeldtError, says_diverged
from veldt.experiments.experiment import Training
from veldt.experiments.side_by_side import Ended, SideBySide
from veldt.experiments.training_state import command_for_rest, has_ended
from veldt.runs.files import says_full
from veldt.runtime.cores import allowed_cores
from veldt.runtime.endings import how_it_ended
from veldt.tuning.request import TuneRequest
from veldt.tuning.scores import ScoreReader
from veldt.tuning.screen import Screen, Shown
from veldt.tuning.study import PARTS, State, Study, Trial

_LOOK_S = 0.5
_MOST_FAILURES = 3  # in a row: then it is not the values that fail


@dataclass(eq=False)
class _Running:
    trial: Trial
    training: Training
    run: Path
    began: float
    reported: int = 0  # parts of its steps
    score: float | None = None
    is_pruned: bool = False


class Search:
    """The trials that are left of a search.

    Args:
        runs: the directory with a run directory for each trial.
        jobs: how many trials run side by side, on equal shares of the cores.
    """

    def __init__(self, request: TuneRequest, study: Study, runs: Path, jobs: int, screen: Screen) -> None:
        self._request, self._study, self._runs, self._jobs, self._screen = request, study, runs, jobs, screen
        self._scores = ScoreReader(request.fixed.config.run)
        self._cores = max(1, len(allowed_cores()) // jobs)
        self._side_by_side = SideBySide[_Running]()
        self._running: list[_Running] = []
        self._failures = 0  # in a row

    def run(self, trials: int) -> None:
        """Runs trials until the study has so many, beginning with those that were interrupted.

        Raises:
            VeldtError: a trial cannot go on whatever its values are; those that ran have written their checkpoints.
            KeyboardInterrupt: after all running ones have.
        """
        before = self._study.trials()
        unfinished = [trial for trial in before if trial.state is State.UNFINISHED]
        new = max(0, trials - len(before))
        try:
            while True:
                while len(self._running) < self._jobs and (unfinished or new):
                    if unfinished:
                        self._continue(unfinished.pop(0))
                    else:
                        new -= 1
                        self._start(self._study.ask())
                if not self._running:
                    return
                self._screen.show([self._shown(one) for one in self._running])
                time.sleep(_LOOK_S)
                self._look()
                for ended in self._side_by_side.ended():
                    self._collect(ended)
        except BaseException:
            self._side_by_side.interrupt_all()
            raise

    def _continue(self, unfinished: Trial) -> None:
        trial = self._study.continued(unfinished)
        if has_ended(self._runs / trial.name):  # but the search ended before it was noted
            self._done(trial, self._runs / trial.name)
            return
        self._screen.note(f"{trial.name} was interrupted, and is continued")
        self._start(trial)

    def _start(self, trial: Trial) -> None:
        try:
            self._request.draft.build({**self._request.settings, **trial.values})
        except UsageError as error:
            self._end(trial, State.FAILED, why=str(error))
            return
        training, run = self._request.training(trial.name, trial.values), self._runs / trial.name
        command = command_for_rest(training, run)
        one = _Running(trial, training, run, time.monotonic())
        self._side_by_side.start(one, command, self._cores)
        self._running.append(one)

    def _look(self) -> None:
        """Reports the scores of the running trials, and ends those that are pruned."""
        for one in self._running:
            part = int(self._scores.share(one.run) * PARTS)
            if one.is_pruned or part <= one.reported:
                continue
            passed = range(one.reported + 1, part + 1)
            one.reported = part
            for at, score in self._scores.at_ends_of(passed, one.run).items():
                one.score = score
                if self._study.report(one.trial, at, score) and part < PARTS:
                    one.is_pruned = True
                    self._side_by_side.interrupt(one)
                    break

    def _collect(self, ended: Ended[_Running]) -> None:
        """Notes how a trial has ended. VeldtError where the next one would end in the same way."""
        one = ended.key
        self._running.remove(one)
        if ended.code == 0 and has_ended(one.run):
            self._done(one.trial, one.run)
        elif one.is_pruned:
            self._end(one.trial, State.PRUNED)
        elif ended.code == 0:
            raise VeldtError(f"{one.run} was interrupted: the same command continues it")
        else:
            self._failed(one.trial, ended.sentence or f"its process {how_it_ended(ended.code)}")

    def _done(self, trial: Trial, run: Path) -> None:
        score = self._scores.final(run)
        if score is None:
            self._end(trial, State.FAILED, why="no episode finished in its steps: give more --steps")
        else:
            self._failures = 0
            self._end(trial, State.DONE, score)

    def _failed(self, trial: Trial, why: str) -> None:
        if says_full(why):
            raise VeldtError(
                f"{trial.name} was stopped: {why}; nothing is lost, and the same command continues"
            )
        self._end(trial, State.FAILED, why=why)
        self._failures = 0 if says_diverged(why) else self._failures + 1
        if self._failures == _MOST_FAILURES:
            raise VeldtError(
                f"{_MOST_FAILURES} trials in a row have failed, {trial.name} because of this: {why}; mend it, and the "
                "same command tries further values"
            )

    def _end(self, trial: Trial, state: State, score: float | None = None, why: str = "") -> None:
        self._screen.ended(self._study.end(trial, state, score, why), self._study.trials())

    def _shown(self, one: _Running) -> Shown:
        share = self._scores.share(one.run)
        return Shown(one.trial, share, time.monotonic() - one.began, one.score, one.is_pruned)


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """Returns the trials that are done, by their score."""
    done = [trial for trial in trials if trial.state is State.DONE and trial.score is not None]
    return sorted(done, key=lambda trial: (-(trial.score or 0.0), trial.number))
