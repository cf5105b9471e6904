"""Runs the trials of a search side by side: each is drawn, trained, looked at on its way, and noted in the study."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veldt.errors import VeldtError, says_diverged
from veldt.experiments.experiment import Training
from veldt.experiments.side_by_side import EndedCommand, SideBySide
from veldt.experiments.training_state import command_for_rest, has_ended
from veldt.formatting import counted
from veldt.runs.files import says_full
from veldt.runtime.cores import allowed_cores
from veldt.runtime.endings import how_it_ended
from veldt.tuning.draws import Draws
from veldt.tuning.request import TuneRequest
from veldt.tuning.scores import ScoreReader, ScoreWatch
from veldt.tuning.screen import RunningTrial, SearchScreen
from veldt.tuning.study import PARTS, Study, Trial, TrialState

_POLL_S = 0.5
# So many failures show that it is not the values that fail: those before any trial has had a score, and those among so
# many trials that have ended last.
_FIRST_FAILURES = 3
_MOST_FAILURES, _LAST_TRIALS = 5, 10


@dataclass(eq=False)
class _Running:
    trial: Trial
    training: Training
    run: Path
    began: float
    watch: ScoreWatch
    is_pruned: bool = False


class Search:
    """The trials that are left of a search.

    Args:
        runs: the directory with a run directory for each trial.
        jobs: how many trials run side by side, on equal shares of the cores.
    """

    def __init__(
        self, request: TuneRequest, study: Study, runs: Path, jobs: int, screen: SearchScreen
    ) -> None:
        self._request, self._study, self._runs, self._jobs, self._screen = request, study, runs, jobs, screen
        self._scores = ScoreReader(request.fixed.config.run)
        self._cores = max(1, len(allowed_cores()) // jobs)
        self._side_by_side = SideBySide[_Running]()
        self._running: list[_Running] = []
        self._draws = Draws(request, study)
        self._have_failed: deque[bool] = deque(maxlen=_LAST_TRIALS)  # the trials that have ended last
        self._has_scores = False

    def run(self, trials: int) -> None:
        """Runs trials until the study has so many, beginning with those that were interrupted.

        Raises:
            VeldtError: a trial cannot go on whatever its values are; those that ran have written their checkpoints.
            KeyboardInterrupt: after all running ones have.
        """
        before = self._study.trials()
        unfinished = [trial for trial in before if trial.state is TrialState.UNFINISHED]
        new = max(0, trials - len(before))
        if not unfinished and not new:
            has = counted(len(before), "trial", "trials")
            self._screen.note(f"Nothing is left to do: the search has {has}, and --trials is {trials}.")
        self._has_scores = any(trial.state in (TrialState.DONE, TrialState.PRUNED) for trial in before)
        try:
            while True:
                while len(self._running) < self._jobs and (unfinished or new):
                    if unfinished:
                        self._continue(unfinished.pop(0))
                    elif (trial := self._draws.next()) is not None:
                        new -= 1
                        self._start(trial)
                    else:
                        new = 0
                        self._screen.note(
                            "No further trial begins, because no combination of values is left."
                        )
                if not self._running:
                    return
                self._screen.show([self._shown(one) for one in self._running])
                time.sleep(_POLL_S)
                self._report_scores()
                for ended in self._side_by_side.ended():
                    self._collect(ended)
        except BaseException:
            self._side_by_side.interrupt_all()
            raise

    def _continue(self, trial: Trial) -> None:
        if has_ended(self._runs / trial.name):  # but the search ended before it was noted
            self._done(trial, self._runs / trial.name)
            return
        self._screen.note(f"{trial.name} was interrupted, and is continued")
        self._start(trial)

    def _start(self, trial: Trial) -> None:
        training, run = self._request.training(trial.name, trial.values), self._runs / trial.name
        command = command_for_rest(training, run)
        one = _Running(trial, training, run, time.monotonic(), self._scores.watch(run))
        self._side_by_side.start(one, command, self._cores)
        self._running.append(one)

    def _report_scores(self) -> None:
        """Reports the scores of the running trials, and ends those that are pruned."""
        for one in self._running:
            passed = one.watch.new_scores()
            if one.is_pruned:
                continue
            for part, score in passed.items():
                if self._study.report(one.trial, part, score) and one.watch.part < PARTS:
                    one.is_pruned = True
                    self._side_by_side.interrupt(one)
                    break

    def _collect(self, ended: EndedCommand[_Running]) -> None:
        """Notes how a trial has ended. VeldtError where the next one would end in the same way."""
        one = ended.key
        self._running.remove(one)
        if ended.code == 0 and has_ended(one.run):
            self._done(one.trial, one.run)
        elif one.is_pruned:
            self._have_failed.append(False)
            self._end(one.trial, TrialState.PRUNED)
        elif ended.code == 0:
            raise VeldtError(f"{one.run} was interrupted: the same command continues it")
        else:
            self._failed(one.trial, ended.sentence or f"its process {how_it_ended(ended.code)}")

    def _done(self, trial: Trial, run: Path) -> None:
        score = self._scores.final(run)
        if score is None:
            self._failed(
                trial,
                "it has no score, because no episode that counts for it ended in its steps: give more --steps",
            )
        else:
            self._has_scores = True
            self._have_failed.append(False)
            self._end(trial, TrialState.DONE, score)

    def _failed(self, trial: Trial, why: str) -> None:
        if says_full(why):
            raise VeldtError(
                f"{trial.name} was stopped: {why}; nothing is lost, and the same command continues"
            )
        self._end(trial, TrialState.FAILED, why=why)
        self._have_failed.append(not says_diverged(why))
        failures = sum(self._have_failed)
        if failures >= (_MOST_FAILURES if self._has_scores else _FIRST_FAILURES):
            raise VeldtError(
                f"{failures} of the last {len(self._have_failed)} trials have failed, {trial.name} because of this: "
                f"{why}; fix that, and the same command tries further values"
            )

    def _end(self, trial: Trial, state: TrialState, score: float | None = None, why: str = "") -> None:
        self._screen.ended(self._study.end(trial, state, score, why), self._study.trials())

    def _shown(self, one: _Running) -> RunningTrial:
        watch = one.watch
        return RunningTrial(one.trial, watch.share, time.monotonic() - one.began, watch.score, one.is_pruned)


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """Returns the trials that are done, by their score."""
    done = [trial for trial in trials if trial.state is TrialState.DONE and trial.score is not None]
    return sorted(done, key=lambda trial: (-(trial.score or 0.0), trial.number))
