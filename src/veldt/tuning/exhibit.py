"""The figures and tables of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from veldt.experiments.figures import Drawing, Exhibit, Line, Table, charts, lines
from veldt.experiments.results import FinishedRun
from veldt.formatting import counted, decimal
from veldt.setting_text import flag, in_search
from veldt.tuning.request import TuneRequest
from veldt.tuning.search import best_first
from veldt.tuning.space import Interval, Space
from veldt.tuning.study import Trial, TrialState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 50  # trials, of which the best tenth are more than a few
BEST = 5  # trials whose learning curves are drawn


def exhibit_of(
    request: TuneRequest,
    trials: Sequence[Trial],
    importances: Mapping[str, float],
    best: Sequence[FinishedRun],
) -> Exhibit:
    """Returns what a search has found; `best` are the runs of the best trials."""
    drawings = [_history(trials), _by_setting(request.space, trials)]
    tables = [_trials(request.space, trials)]
    if importances:
        drawings.append(_importances(importances))
        rows = [(flag(name), f"{share:.3f}") for name, share in importances.items()]
        tables.append(
            Table(
                "Importances", ("setting", "importance"), rows, f"They add up to 1. {caution(trials)}".strip()
            )
        )
    if best:
        curves = {run.job.group: _curve(run) for run in best}
        caption = f"Mean return of training over steps, of the best {counted(len(best), 'trial', 'trials')}."
        drawings.append(lines("Best trials", caption, {request.env: curves}, "agent steps", "mean return"))
    return Exhibit(summary(request, trials), drawings, tables)


def _curve(run: FinishedRun) -> Line:
    steps, scores = run.curve()
    return Line(steps.tolist(), scores.tolist())


def summary(request: TuneRequest, trials: Sequence[Trial]) -> str:
    """Returns what has been found, as sentences."""
    counts = {state: sum(trial.state is state for trial in trials) for state in TrialState}
    parts = [f"{counts[state]} {state}" for state in TrialState if counts[state]]
    found = f"{counted(len(trials), 'trial', 'trials')} ({', '.join(parts)})" if trials else "No trial"
    ranked = best_first(trials)
    on_way = [one for one in trials if one.state is TrialState.UNFINISHED and one.score is not None]
    scores = ", ".join(f"{one.name} was at a score of {decimal(one.score)}" for one in on_way)
    if not ranked:
        return f"{found}: {scores or 'none has a score yet'}."
    seeds = "One seed each, so train the best again with others"
    best = f"the best is {ranked[0].name} with a score of {decimal(ranked[0].score)}"
    return f"{found}: {best}{scores and '; '}{scores}. {seeds}."


def _history(trials: Sequence[Trial]) -> Drawing:
    figure, (one,) = charts(1, ["Scores"], "trial", "score")
    _points(one, trials, lambda trial: float(trial.number))
    best, high = [], float("-inf")
    done = sorted(best_first(trials), key=lambda trial: trial.number)
    for trial in done:
        high = max(high, trial.score or 0.0)
        best.append(high)
    one.step([trial.number for trial in done], best, where="post", color="C1", label="best so far")
    one.legend(frameon=False, fontsize=7)
    return Drawing("Scores", "The score of each trial; of a pruned one, that at which it was ended.", figure)


def _by_setting(space: Space, trials: Sequence[Trial]) -> Drawing:
    figure, axes = charts(len(space), [flag(name) for name in space], "value", "score")
    for one, (name, dimension) in zip(axes, space.items(), strict=True):
        if isinstance(dimension, Interval):
            if dimension.logarithmic:
                one.set_xscale("log")
            _points(one, trials, partial(_number_of, name))
        else:
            places = list(dimension.values)
            one.set_xticks(range(len(places)), places)
            _points(one, trials, partial(_place_of, name, places))
    return Drawing("Scores by setting", "The scores of the trials over the values of each setting.", figure)


def _number_of(name: str, trial: Trial) -> float:
    return float(trial.values[name])


def _place_of(name: str, places: Sequence[str], trial: Trial) -> float:
    return float(places.index(in_search(trial.values[name])))


def _points(one: Axes, trials: Sequence[Trial], x: Callable[[Trial], float]) -> None:
    for state, marker in ((TrialState.DONE, "o"), (TrialState.PRUNED, "x")):
        shown = [trial for trial in trials if trial.state is state and trial.score is not None]
        if shown:
            scores = [trial.score or 0.0 for trial in shown]
            one.scatter([x(trial) for trial in shown], scores, marker=marker, s=18, color="C0", label=state)


def caution(trials: Sequence[Trial]) -> str:
    """Returns a sentence on importances of few trials; "" of many."""
    scored = sum(trial.state is TrialState.DONE for trial in trials)
    if scored >= _MANY:
        return ""
    return f"Of {scored} trials they are mostly chance: take {_MANY} or more."


def _importances(importances: Mapping[str, float]) -> Drawing:
    figure, (one,) = charts(1, ["Importances"], "importance", "")
    names = list(importances)[::-1]
    one.barh([flag(name) for name in names], [importances[name] for name in names], color="C0")
    caption = "How much each setting's value decides whether a trial is among the best tenth (PED-ANOVA)."
    return Drawing("Importances", caption, figure)


def _trials(space: Space, trials: Sequence[Trial]) -> Table:
    ranked = best_first(trials)
    rest = [trial for trial in trials if trial not in ranked]
    rows = [
        (
            trial.name,
            str(trial.state),
            decimal(trial.score),
            *(in_search(trial.values[name]) if name in trial.values else "" for name in space),
            trial.why,
        )
        for trial in (*ranked, *rest)
    ]
    return Table("Trials", ("trial", "state", "score", *map(flag, space), "why it failed"), rows)
