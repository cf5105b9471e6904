"""What has to be equal at the end of two runs that are the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from veldt.runs.checkpoints import Checkpoint, CheckpointStore

# A few small phases: enough for episodes to end, checkpoints to be written and schedules to move.
SMALL: dict[str, Any] = {
    "num_envs": 4,
    "batch_size": 64,
    "minibatches": 2,
    "epochs": 2,
    "hidden": (16,),
    "threads": 1,
    "precision": "fp32",
    "device": "cpu",
    "env_backend": "in-process",  # a busy machine would take workers now and then, and with them other bits
    "anneal_learning_rate": True,
    "anneal_clip": True,
    "log_every": 0.0,
}


# The same for recipes with a replay buffer, which wraps in a run of some hundred steps.
SMALL_REPLAYED: dict[str, Any] = {
    "num_envs": 4,
    "batch_size": 16,
    "training_intensity": 2.0,
    "horizon": 4,
    "learning_starts": 40,
    "buffer_size": 120,
    "n_step": 3,
    "target_update_interval": 100,
    "hidden": (16,),
    "threads": 1,
    "precision": "fp32",
    "device": "cpu",
    "env_backend": "in-process",
    "log_every": 0.0,
}


# For A2C on an Atari game.
SMALL_ATARI: dict[str, Any] = {
    "num_envs": 3,
    "horizon": 5,
    "threads": 1,
    "precision": "fp32",
    "env_backend": "in-process",
}


def newest(run: Path) -> Checkpoint:
    """The newest checkpoint; a damaged one is a failure."""

    def damaged(text: str) -> None:
        raise AssertionError(text)

    return CheckpointStore(run / "checkpoints").newest(damaged)


def arrays_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Its arrays, by group and name."""
    return {
        f"{group}/{name}": array
        for group, arrays in checkpoint.groups.items()
        for name, array in arrays.items()
    }


def state_of(run: Path) -> dict[str, Any]:
    """Every array and counter of the newest checkpoint, and the bytes of the list of episodes, by name."""
    checkpoint = newest(run)
    state = arrays_of(checkpoint)
    assert any(name.startswith("weights/") for name in state) and any(
        name.startswith("optimiser/") for name in state
    )
    learner = checkpoint.meta["learners"]["0"]
    state |= {name: learner[name] for name in ("updates", "phase", "episodes", "experience")}
    state |= {name: checkpoint.meta[name] for name in ("recipe", "scores", "rate_limiter")}
    # Seconds are the only counters that two runs may differ in.
    timed = ("seconds", "stages", "solved_at_seconds")
    state["monitor"] = {key: value for key, value in checkpoint.meta["monitor"].items() if key not in timed}
    state["step"], state["score"] = checkpoint.step, checkpoint.score
    state["episodes.jsonl"] = (run / "episodes.jsonl").read_bytes()
    state["actions.bin"] = (run / "actions.bin").read_bytes()
    return state


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Arrays and values by name, bit for bit."""
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, two[name], name)
        else:
            assert value == two[name], name


def assert_same_run(run: Path, other: Path) -> None:
    one, two = state_of(run), state_of(other)
    assert_same(one, two)
    assert one["episodes.jsonl"], "no episode was finished: the comparison would not see episodes"
