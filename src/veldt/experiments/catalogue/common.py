"""What several experiments share: settings of all runs, tables of scores, and words on how results compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Drawing, Line, Table, lines, number
from veldt.experiments.results import FinishedRun, Results, mean_of

STOOKE = "Stooke & Abbeel 2018"
SMALL_ENV = "CartPole-v1"

# What experiments on Atari need.
ATARI: Mapping[str, str] = {"ale_py": "pip install 'veldt[atari]'"}
# A run has one core, so that runs side by side do not disturb each other.
ALONE: Mapping[str, Any] = {"threads": 1, "log": "none", "log_every": 1.0, "evaluate_every": 0}


def replay_settings(env: str, batch: int) -> dict[str, Any]:
    """Returns the settings of a batch of this size; outside of Atari, learning starts when two batches are stored."""
    return {"batch_size": batch} | (
        {} if env.startswith("ALE/") else {"learning_starts": max(1_000, 2 * batch)}
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
        rows.append((chart, group, str(len(runs)), number(*mean_of(runs, lambda run: run.score))))
    caption = (
        "Mean raw return of the episodes in the last tenth of the steps, with its 95% bootstrap interval."
    )
    return Table("Final scores", ("chart", "configuration", "seeds", "score"), rows, caption)


def scores_in_words(results: Results) -> str:
    """Returns the final score of each group, with its interval, as the end of a sentence."""
    return "; ".join(
        f"{chart}, {group}: {number(*mean_of(runs, lambda run: run.score))}"
        for chart, group, runs in results.groups()
    )


def seeded(request: Request, **fields: Any) -> list[Training]:
    """Returns the same training with each seed; `fields` are the others of `Training`."""
    return [Training(seed=seed, **fields) for seed in request.seed_range]


def scores_over_x(results: Results, title: str, caption: str, horizontal: str) -> Drawing:
    """Returns the final score over each group's `x`, a chart for each of the results'."""
    panels = {
        chart: {chart: line_over_x(groups, lambda run: run.score)}
        for chart, groups in results.charts().items()
    }
    return lines(title, caption, panels, horizontal, "final score", logarithmic=True)


def line_over_x(groups: Mapping[str, Sequence[FinishedRun]], value: Any) -> Line:
    """Returns a line through the groups, at each group's `x`."""
    points = sorted((runs[0].job.x, *mean_of(runs, value)) for runs in groups.values())
    x, y, low, high = zip(*points, strict=True)
    return Line(x, y, low, high)


def smallest_and_largest(results: Results) -> dict[str, tuple[float, float, float, float]]:
    """Returns, by chart, the smallest x with its score and the largest x with its score."""
    ends = {}
    for chart, groups in results.charts().items():
        ordered = sorted(groups.values(), key=lambda runs: runs[0].job.x)
        first, last = ordered[0], ordered[-1]
        ends[chart] = (
            first[0].job.x,
            mean_of(first, lambda run: run.score)[0],
            last[0].job.x,
            mean_of(last, lambda run: run.score)[0],
        )
    return ends
