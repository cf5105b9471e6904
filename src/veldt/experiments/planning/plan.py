"""The plan of an experiment as a table: what is left to run, how fast each part is here, and how long it takes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from veldt.experiments.experiment import Evaluation, Job, Measurement, Training
from veldt.experiments.planning.kinds import kind_of
from veldt.formatting import MISSING, count, whole
from veldt.runs import strict_json
from veldt.setting_text import in_sentence

_HOUR = 3600.0
_FEW = 2  # environments that are all named


@dataclasses.dataclass
class _Row:
    """Jobs that differ in their environment and seed only; `kind` and `settings` are cells of the table."""

    kind: str
    settings: str
    jobs: list[Job] = dataclasses.field(default_factory=list)


def plan_table(seconds: Mapping[Job, float], speeds: Mapping[str, float]) -> Table:
    """Returns a row for each recipe and setting among the jobs.

    Args:
        seconds: how long each job that is not done takes alone.
        speeds: steps per second by `kind_of`; NaN if they could not be measured.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("recipe", "environments", "settings", "seeds"):
        table.add_column(name, overflow="fold")
    for name in ("runs", "steps", "cores", "SPS", "hours"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in _rows(list(seconds)):
        first, hours = row.jobs[0], sum(seconds[job] for job in row.jobs) / _HOUR
        steps, speed = "", ""
        if isinstance(first, Training):
            steps, speed = count(first.settings["steps"]), whole(speeds[kind_of(first)])
        table.add_row(
            row.kind,
            _envs(row.jobs),
            ", ".join(filter(None, (row.settings, *_different_flags(row.jobs)))),
            _seeds(row.jobs),
            str(len(row.jobs)),
            steps,
            str(first.cores or "all"),
            speed,
            hours_of(hours),
        )
    return table


def hours_of(hours: float) -> str:
    """Returns a number of hours with two digits, or all of those before the point; a dash for NaN."""
    if math.isnan(hours):
        return MISSING
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def _rows(jobs: Sequence[Job]) -> list[_Row]:
    trained = [one for job in jobs if (one := _trained(job))]
    different = _different(one.settings for one in trained)
    rows: dict[Any, _Row] = {}
    for job in jobs:
        if isinstance(job, Training):
            key: Any = (job.recipe, strict_json.dumps(dict(job.settings), sort_keys=True))
            kind, settings = job.recipe, _as_text(job, different)
        elif isinstance(job, Evaluation):
            kind, starts = f"evaluate {job.of.recipe}", "from recorded starts"
            key = (kind, strict_json.dumps(dict(job.of.settings), sort_keys=True))
            settings = ", ".join(filter(None, (_as_text(job.of, different), starts)))
        else:
            key = settings = job.group
            kind = " ".join(job.words[:2])
        rows.setdefault(key, _Row(kind, settings)).jobs.append(job)
    return list(rows.values())


def _trained(job: Job) -> Training | None:
    """Returns the training that a job is, or that it evaluates; None of a measurement."""
    if isinstance(job, Evaluation):
        return job.of
    return job if isinstance(job, Training) else None


def _different(settings: Any) -> list[str]:
    """Returns the names of settings that are not the same in all trainings, in their order."""
    every = list(settings)
    names = dict.fromkeys(name for one in every for name in one)
    return [name for name in names if any(one.get(name) != every[0].get(name) for one in every)]


def _as_text(job: Training, different: Sequence[str]) -> str:
    return ", ".join(
        f"{name} {in_sentence(job.settings[name])}" for name in different if name in job.settings
    )


def _different_flags(jobs: Sequence[Job]) -> list[str]:
    """Returns the flags of measurements that are not the same in all, each with its values."""
    words = [job.words for job in jobs if isinstance(job, Measurement)]
    columns = [list(dict.fromkeys(column)) for column in zip(*words, strict=False)]
    envs = {job.chart for job in jobs}
    return [
        " ".join((before[0].removeprefix("--"), *column))
        for before, column in itertools.pairwise(columns)
        if len(column) > 1 and not envs & set(column)
    ]


def _envs(jobs: Sequence[Job]) -> str:
    envs = list(dict.fromkeys(one.env if (one := _trained(job)) else job.chart for job in jobs))
    short = [env.rpartition(":")[2] for env in envs]
    return ", ".join(short) if len(envs) <= _FEW else f"{short[0]} and {len(envs) - 1} more"


def _seeds(jobs: Sequence[Job]) -> str:
    """Returns the seeds of trainings and of their evaluations, 1-3 for 1, 2 and 3; of measurements nothing."""
    seeds = sorted({one.seed for job in jobs if (one := _trained(job))})
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]}-{seeds[-1]}"
    return " ".join(map(str, seeds))
