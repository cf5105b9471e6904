"""What several experiments share: settings of all runs, tables of scores, and words on how results compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from veldt.config.recipe_registry import RECIPES
from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.verdicts import NOTHING, Verdict, keeps
from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Drawing, Line, Table, lines, number
from veldt.experiments.results import FinishedRun, Results, interval, mean_of

STOOKE = "Stooke & Abbeel 2018"
SMALL_ENV = "CartPole-v1"

# What experiments on Atari need.
ATARI: Mapping[str, str] = {"ale_py": "pip install 'veldt[atari]'"}
# A run has one core, so that runs side by side do not disturb each other.
ALONE: Mapping[str, Any] = {"threads": 1, "log": "none", "log_every": 1.0, "evaluate_every": 0}
# A replay buffer of a million frames takes 8 GB, which would stay on the disk for each of hundreds of runs.
REPLAY_NOT_KEPT: Mapping[str, Any] = {"checkpoint_replay": "none"}


def envs_of(request: Request, *papers: str) -> tuple[str, ...]:
    """Returns the environments: those that the user names, else the small one or, at the paper's scale, `papers`."""
    return request.envs(*((SMALL_ENV,) if request.is_small else papers))


def replay_settings(env: str, batch: int) -> dict[str, Any]:
    """Returns the settings of a batch of this size; outside of Atari, learning starts when two batches are stored."""
    return {"batch_size": batch} | (
        {} if env.startswith(ATARI_PREFIX) else {"learning_starts": max(1_000, 2 * batch)}
    )


def small_env_differs(request: Request, steps: int, papers: str) -> list[str]:
    """Returns the usual sentences on a small experiment: its environment, and its number of steps."""
    if not request.is_small:
        return ["One machine instead of the paper's; the emulator is ale-py's."]
    envs = ", ".join(request.envs(SMALL_ENV))
    return [
        f"{envs} instead of {papers}.",
        f"{steps:,} steps per run.",
        "The recipes' settings for that environment.",
    ]


def scores_table(results: Results) -> Table:
    """Returns the final score of each group, with its interval."""
    rows = []
    for chart, group, runs in results.groups():
        rows.append((chart, group, str(len(runs)), number(*interval(scores_of(runs)))))
    caption = (
        "Mean raw return of the episodes in the last tenth of the steps, with its 95% bootstrap interval."
    )
    return Table("Final scores", ("chart", "configuration", "seeds", "score"), rows, caption)


def scores_of(runs: Sequence[FinishedRun]) -> list[float]:
    """Returns the final scores of runs."""
    return [run.score for run in runs]


def scores_in_words(results: Results) -> str:
    """Returns the final score of each group, with its interval, as a sentence; "" without runs."""
    found = "; ".join(
        f"{group} on {chart} {number(*interval(scores_of(runs)))}" for chart, group, runs in results.groups()
    )
    return f"Final scores: {found}" if found else ""


def cores_of(recipe: str) -> int:
    """Returns how many cores a run of a recipe keeps busy: one, or all (0) where its system has several processes."""
    return 1 if RECIPES[recipe].system == "synchronous" else 0


def seeded(request: Request, **fields: Any) -> list[Training]:
    """Returns the same training with each seed; `fields` are the others of `Training`."""
    return [Training(seed=seed, **fields) for seed in request.seed_range]


def by_x(groups: Mapping[str, Sequence[FinishedRun]]) -> list[Sequence[FinishedRun]]:
    """Returns the runs of each group, in the order of the groups' `x`."""
    return sorted(groups.values(), key=lambda runs: runs[0].job.x)


def scores_over_x(results: Results, title: str, caption: str, horizontal: str) -> Drawing:
    """Returns the final score over each group's `x`, a chart for each of the results'."""
    panels = {
        chart: {chart: line_over_x(groups, attrgetter("score"))} for chart, groups in results.charts().items()
    }
    return lines(title, caption, panels, horizontal, "final score", logarithmic=True)


def line_over_x(groups: Mapping[str, Sequence[FinishedRun]], value: Callable[[FinishedRun], float]) -> Line:
    """Returns a line through the groups, at each group's `x`."""
    points = sorted((runs[0].job.x, *mean_of(runs, value)) for runs in groups.values())
    x, y, low, high = zip(*points, strict=True)
    return Line(x, y, low, high)


def kept_from_the_smallest(
    results: Results, most: Callable[[Training], float] = lambda job: math.inf
) -> tuple[str, dict[str, Verdict]]:
    """Returns the scores at both ends in words, and by chart whether the largest x keeps the score of the smallest.

    `most` is the largest x that counts, of the runs of a chart; NaN: no verdict on these.
    """
    sentences, verdicts = [], {}
    for chart, groups in results.charts().items():
        ordered = by_x(groups)
        limit = most(ordered[0][0].job)
        first = ordered[0]
        last = [first, *(runs for runs in ordered[1:] if not runs[0].job.x > limit)][-1]
        few, many = (f"{mean_score(runs)} with {runs[0].job.x:g}" for runs in (first, last))
        sentences.append(f"{chart} {few}" if first is last else f"{chart} {few}, {many}")
        if not math.isnan(limit):
            kept = keeps(scores_of(last), scores_of(first))
            verdicts[chart] = Verdict(None, NOTHING) if first is last else kept
    return "; ".join(sentences), verdicts


def mean_score(runs: Sequence[FinishedRun]) -> str:
    """Returns the mean of final scores in words."""
    return number(interval(scores_of(runs))[0])
