"""The study of a search: Optuna's trials, in an SQLite file of the search's directory."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from veldt.errors import UsageError, VeldtError, first_line
from veldt.runs.files import free_space
from veldt.tuning.space import Dimension, Interval, Space, values_of

PARTS = 20  # of a trial's steps: at the end of each, its score is reported and it may be pruned
_NAME = "veldt"
_WHY = "why"  # a trial failed
# As RL Zoo: a trial is compared with others only when there are some, and when it has learnt for a while.
_FIRST_TRIALS, _FIRST_PARTS = 5, PARTS // 3
_LEAST_FOR_IMPORTANCES = 4


class TrialState(StrEnum):
    """What has become of a trial."""

    UNFINISHED = "unfinished"
    DONE = "done"
    PRUNED = "pruned"
    FAILED = "failed"


@dataclass(frozen=True)
class Trial:
    """A trial: the values of what is searched, and its score; if it is not done, the last one noted, or None."""

    number: int
    values: Mapping[str, Any]
    state: TrialState
    score: float | None = None
    why: str = ""

    @property
    def name(self) -> str:
        return f"trial-{self.number:03}"


def refuse_missing_optuna() -> None:
    """Raises UsageError if Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise UsageError("veldt tune needs Optuna, which is not installed: pip install 'veldt[tune]'")


class Study:
    """The trials of a search, on the disk.

    Args:
        path: the file, made if it does not exist.
        seed: of the values that are drawn.
        prunes: whether a trial ends early whose score is below the median of the others at the same steps.
        side_by_side: whether several trials run at a time.

    All methods raise a VeldtError if the file cannot be written, and keep what it has.
    """

    def __init__(self, path: Path, space: Space, seed: int, *, prunes: bool, side_by_side: bool) -> None:
        import optuna  # a second or two
        from sqlalchemy.exc import SQLAlchemyError

        self._path, self._space, self._optuna = path, space, optuna
        self._states = optuna.trial.TrialState
        self._distributions = {name: self._distribution(dimension) for name, dimension in space.items()}
        self._refusals = (optuna.exceptions.StorageInternalError, SQLAlchemyError)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with self._explained():
            self._storage = optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
            pruner = optuna.pruners.MedianPruner(_FIRST_TRIALS, _FIRST_PARTS)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=_NAME,
                direction="maximize",
                load_if_exists=True,
                pruner=pruner if prunes else optuna.pruners.NopPruner(),
            )
            # A continued search draws other values than it drew at its start.
            drawn = len(self._study.get_trials(deepcopy=False))
            with warnings.catch_warnings(category=optuna.exceptions.ExperimentalWarning, action="ignore"):
                self._study.sampler = optuna.samplers.TPESampler(
                    seed=(seed + drawn) % 2**32, constant_liar=side_by_side
                )

    def trials(self) -> list[Trial]:
        """Returns all trials, by number."""
        with self._explained():
            return [self._trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def draw(self) -> dict[str, Any]:
        """Returns what is drawn from the space for a new trial, by what the trials before have shown."""
        sampler, new = self._study.sampler, self._optuna.trial.create_trial(state=self._states.RUNNING)
        with self._explained():
            return {
                name: sampler.sample_independent(self._study, new, name, distribution)
                for name, distribution in self._distributions.items()
            }

    def add(self, drawn: Mapping[str, Any]) -> Trial:
        """Returns a new trial with what was drawn."""
        new = self._optuna.trial.create_trial(
            state=self._states.RUNNING, params=dict(drawn), distributions=self._distributions
        )
        with self._explained():
            self._study.add_trial(new)
            return self._trial(self._study.get_trials(deepcopy=False)[-1])

    def report(self, trial: Trial, part: int, score: float) -> bool:
        """Notes a trial's score at the end of a part of its steps; returns whether it should be pruned."""
        with self._explained():
            running = self._running(trial)
            with warnings.catch_warnings(action="ignore"):  # of a part that was reported before a resume
                running.report(score, part)
            return bool(running.should_prune())

    def end(self, trial: Trial, state: TrialState, score: float | None = None, why: str = "") -> Trial:
        """Notes how a trial has ended, and returns it."""
        states = self._states
        kind = {
            TrialState.DONE: states.COMPLETE,
            TrialState.PRUNED: states.PRUNED,
            TrialState.FAILED: states.FAIL,
        }[state]
        with self._explained():
            if why:
                self._running(trial).set_user_attr(_WHY, why)
            self._study.tell(trial.number, score if state is TrialState.DONE else None, state=kind)
            return self._trial(self._study.get_trials(deepcopy=False)[trial.number])

    def importances(self) -> dict[str, float]:
        """Returns how much of the scores' differences each setting explains, largest first; none of few trials."""
        optuna = self._optuna
        scores = {trial.score for trial in self.trials() if trial.state is TrialState.DONE}
        if len(scores) < _LEAST_FOR_IMPORTANCES:
            return {}
        with warnings.catch_warnings(category=optuna.exceptions.ExperimentalWarning, action="ignore"):
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: float(share) for name, share in shares.items()}

    def close(self) -> None:
        """Closes the file."""
        self._storage.engine.dispose()

    def _running(self, trial: Trial) -> Any:
        study_id = self._storage.get_study_id_from_name(_NAME)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)
        return self._optuna.trial.Trial(self._study, trial_id)

    def _distribution(self, dimension: Dimension) -> Any:
        of = self._optuna.distributions
        if not isinstance(dimension, Interval):
            return of.CategoricalDistribution(list(dimension.values))
        low, high, step = dimension.low, dimension.high, dimension.step
        if dimension.whole:
            return of.IntDistribution(int(low), int(high), log=dimension.logarithmic, step=int(step) or 1)
        return of.FloatDistribution(low, high, log=dimension.logarithmic, step=step or None)

    def _trial(self, frozen: Any) -> Trial:
        states = self._states
        state = {
            states.COMPLETE: TrialState.DONE,
            states.PRUNED: TrialState.PRUNED,
            states.FAIL: TrialState.FAILED,
        }.get(frozen.state, TrialState.UNFINISHED)
        noted = frozen.intermediate_values
        score = noted[max(noted)] if frozen.value is None and noted else frozen.value
        values = values_of(self._space, frozen.params)
        return Trial(frozen.number, values, state, score, frozen.user_attrs.get(_WHY, ""))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Converts what Optuna and SQLite raise about the file into one sentence."""
        try:
            yield
        except self._refusals as error:
            cause = first_line(error.__cause__ or error)
            raise VeldtError(
                f"the study {self._path} cannot be read or written ({cause}; {free_space(self._path)} are free there): "
                "make room if there is none, and the same command continues; if the file is damaged, name another "
                "directory by --out"
            ) from error
