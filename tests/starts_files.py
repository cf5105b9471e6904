"""Files of recorded starts that nothing was played for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiment_results import recorded
from small_experiments import experiment, training
from veldt.experiments.experiment import Request
from veldt.experiments.recorded_starts import RecordedStarts, with_starts

PONG, BREAKOUT = "ALE/Pong-v5", "ALE/Breakout-v5"


def write(directory: Path, name: str = "Pong.safetensors", env: str = PONG, **more: Any) -> Path:
    """Writes a file of starts of `env`."""
    directory.mkdir(parents=True, exist_ok=True)
    recorded(env, path=directory / name, **more).write()
    return directory / name


def starts_in(directory: Path, *envs: str) -> tuple[RecordedStarts, ...]:
    """The starts that a directory has of environments."""
    mine = experiment([training(env=env) for env in envs])
    return with_starts(mine, Request("small", 1), directory).starts
