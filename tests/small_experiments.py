"""Experiments of a few quick jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from veldt.experiments.experiment import Experiment, Job, Measurement, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves
from veldt.experiments.results import Results


class Printed(Measurement):
    """A measurement by a line of Python."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", *self.words]


def printed(group: str, code: str) -> Printed:
    return Printed(group=group, words=(code,), seconds=1.0, cores=1)


def experiment(
    jobs: Sequence[Job], *, jobs_of: Callable[[Request], Sequence[Job]] | None = None, **more: Any
) -> Experiment:
    """An experiment of `jobs`, or of those that `jobs_of` returns."""

    def draw(results: Results) -> Exhibit:
        rows = [(run.job.group, f"{run.score:.1f}") for run in results.runs]
        return Exhibit("It says that.", [learning_curves(results)], [Table("Scores", ("run", "score"), rows)])

    return Experiment(
        name="mine",
        source="a paper",
        shows="Something.",
        jobs=jobs_of or (lambda _: jobs),
        draw=draw,
        differs=lambda _: ["All."],
        **more,
    )


def training(**more: Any) -> Training:
    """Returns a run of PPO on CartPole, with what is given in place of its fields."""
    given: dict[str, Any] = {"group": "g", "recipe": "ppo", "env": "CartPole-v1", "seed": 1} | more
    return Training(**{"settings": {"steps": 6_000}, **given})
