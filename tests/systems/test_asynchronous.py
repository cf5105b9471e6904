"""Whole runs of asynchronous learners, resumed, with the central store in checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_rows import episodes, learning

import veldt
from run_state import newest
from veldt.errors import UsageError

SMALL: dict[str, Any] = {
    "num_envs": 6,
    "learners": 3,
    "hidden": (16,),
    "steps": 3000,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}
REPLAYED: dict[str, Any] = {
    "batch_size": 16,
    "training_intensity": 2.0,
    "learning_starts": 90,
    "buffer_size": 3000,
    "target_update_interval": 100,
}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a3c": ("a3c", {"horizon": 5, "chunks": 2}),
    "appo, two steps alone": (
        "appo",
        {"batch_size": 192, "minibatches": 3, "local_steps": 2, "actor_sync_interval": 4},
    ),
    "appo, appendix B with one step": (
        "appo",
        {
            "batch_size": 192,
            "minibatches": 3,
            "own_moments": True,
            "own_counts": True,
            "adam_epsilon_hat": True,
        },
    ),
    "async-dqn": ("async-dqn", REPLAYED | {"horizon": 4}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "a3c" else name for name in RUNS]
)
def test_a_run_does_its_steps_and_is_resumed(name: str, tmp_path: Path) -> None:
    recipe, settings = RUNS[name]
    run = veldt.train(
        recipe, env="environments:slow_cartpole", run_dir=tmp_path / "run", **(SMALL | settings)
    )
    assert run.reason == "steps" and run.summary["steps"] >= 3000
    assert run.summary["system"] == "asynchronous"
    last = learning(run.path)[-1]
    assert np.isfinite(last["train/loss"]) and last["system/store_updating_seconds"] > 0.0
    assert 0 <= last["train/policy_lag_min"] <= last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert {game["env"] for game in episodes(run.path)} == set(range(6)), "each unit plays its own"
    before = newest(run.path)
    updates = before.meta["rate_limiter"]["updates"]
    assert len(updates) == 3 and all(number > 5 for number in updates), "each of them learns"
    if "count" in before.groups["optimiser"]:
        # The store's part of a checkpoint is the first unit's, and others may have been in a phase of theirs.
        missing = sum(updates) - int(before.groups["optimiser"]["count"])
        assert 0 <= missing <= 2 * 18, "none was lost"
    # So many steps that on a busy machine, too, the last learner begins before the others have made all of them.
    again = veldt.resume(run.path, steps=10_000, quiet=True)
    assert again.summary["steps"] >= 10_000
    more = np.array(newest(run.path).meta["rate_limiter"]["updates"]) - updates
    assert (more > 0).all(), "each of them goes on"
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2


def test_one_learner_is_the_synchronous_system(tmp_path: Path) -> None:
    """Bit for bit: a store that nobody else touches is no more than memory."""
    settings = {
        "env": "CartPole-v1",
        "num_envs": 4,
        "horizon": 5,
        "learning_rate": 1e-3,
        "anneal_learning_rate": True,
        "gamma": 0.99,
        "steps": 400,
        "hidden": (16,),
        "threads": 1,
        "precision": "fp32",
        "env_backend": "in-process",
        "quiet": True,
    }
    alone = veldt.train("a2c", run_dir=tmp_path / "alone", **settings)
    stored = veldt.train("a3c", run_dir=tmp_path / "stored", learners=1, **settings)
    one, two = newest(alone.path), newest(stored.path)
    for group in ("weights", "optimiser"):
        for name, array in one.groups[group].items():
            np.testing.assert_array_equal(array, two.groups[group][name], name)


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        (
            "a3c",
            {"chunks": 10**6},
            r"--chunks is 1,000,000, and the network has 8 tensors: take fewer",
        ),
        ("a3c", {"own_counts": True}, "--own-counts would have no effect: the update rule counts no updates"),
        (
            "appo",
            {"own_moments": True, "local_steps": 2},
            "--own-moments would have no effect: --local-steps is 2",
        ),
        ("a3c", {"chunks": 0}, "--chunks is 0: it must be at least 1"),
        ("appo", {"local_steps": 0}, "--local-steps is 0: it must be at least 1"),
        ("appo", {"actor_sync_interval": -1}, r"--actor-sync-interval is -1: it must be 0 \(never\) or more"),
        ("a3c", {"learners": 4}, "--num-envs is 6 and --learners is 4: each learner must get as many"),
        (
            "async-dqn",
            {"learning_starts": 90, "batch_size": 64},
            "learning starts after 90 steps, shared out among 3 learners",
        ),
        (
            "a3c",
            {"network": "own_networks:with_batch_norm", "hidden": None},
            "the network has the buffer '.*', and learners share parameters only",
        ),
        (
            "a3c",
            {"cluster": "local"},
            "a3c cannot run there: its learners share memory, which machines do not; leave --cluster out",
        ),
    ],
)
def test_impossible_settings_are_refused(recipe: str, settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        given = {name: value for name, value in (SMALL | settings).items() if value is not None}
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()
