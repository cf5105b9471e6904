"""Kinds of trainings: those of a kind are as fast as each other, and valid or not together."""

from __future__ import annotations

from collections.abc import Iterable

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments import minatar_games
from veldt.experiments.experiment import Job, Training
from veldt.runs import strict_json


def kind_of(job: Training) -> str:
    """Returns the name of what decides a run's speed: not its seed, the length of the run, or which Atari game it is.

    The network takes the same time in all Atari games, and the emulators differ little beside it.
    """
    settings = {name: value for name, value in job.settings.items() if name != "steps"}
    return strict_json.dumps([job.recipe, _alike(job.env), settings], sort_keys=True)


def one_of_each_kind(jobs: Iterable[Job]) -> list[Training]:
    """Returns the first training of each kind."""
    return list({kind_of(job): job for job in reversed(list(jobs)) if isinstance(job, Training)}.values())[
        ::-1
    ]


def _alike(env: str) -> str:
    """Returns what an env has in common with those that are as fast."""
    for prefix in (ATARI_PREFIX, f"{minatar_games.__name__}:"):
        if env.startswith(prefix):
            return prefix
    return env
