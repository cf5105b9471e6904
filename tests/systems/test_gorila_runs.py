"""Whole runs of Gorila, with and without bundles, resumed, and refused; test_matrix.py trains every algorithm."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from run_rows import events, learning, metrics

import veldt
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.runs.checkpoints import CheckpointStore
from veldt.systems.roles.actor import _Actor

BUNDLES: dict[str, Any] = {
    "learners": 3,
    "num_envs": 6,
    "parameter_shards": 2,
    "batch_size": 16,
    "training_intensity": 4.0,
    "learning_starts": 100,
    "horizon": 4,
    "buffer_size": 3000,
    "hidden": (16,),
    "steps": 3000,
    "target_update_interval": 200,
    "evaluator_share": 0.0,
    "checkpoint_every": 1000,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}
APART = {name: value for name, value in BUNDLES.items() if name != "horizon"} | {"actors": 2, "shards": 2}


@pytest.mark.parametrize(
    ("settings", "algorithm"),
    [
        (BUNDLES, "dqn"),
        (APART, "c51"),
    ],
    ids=["bundles-dqn", "apart-c51"],
)
def test_a_run_does_its_steps_and_is_resumed(settings: Any, algorithm: str, tmp_path: Path) -> None:
    settings = settings | {"optimiser": "adam"}  # which counts updates
    env = "environments:slow_cartpole"
    run = veldt.train("gorila", env=env, algorithm=algorithm, run_dir=tmp_path / "run", **settings)
    assert run.reason == "steps" and run.summary["steps"] >= 3000
    assert (run.summary["algorithm"], run.summary["system"]) == (algorithm, "gorila")
    last = learning(run.path)[-1]
    assert np.isfinite(last["train/loss"]) and last["system/role_restarts"] == 0
    assert last["rollout/epsilon"] < 1.0
    assert last["system/stale_gradient_share"] == 0.0 and last["system/gradient_staleness_mean"] >= 0.0
    before = CheckpointStore(run.path / "checkpoints").newest(print)
    updates = before.meta["rate_limiter"]["updates"]
    assert len(updates) == 3 and min(updates) > 0
    version_S = before.groups["server"]["version"]
    # Each says its part at a moment of its own: what is under way is in one of them only.
    assert version_S.tolist() == pytest.approx([sum(updates)] * 2, rel=0.2)
    assert sum(updates) * 16 == pytest.approx(
        4.0 * (sum(before.meta["rate_limiter"]["steps"]) - 100), rel=0.25
    )
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2
    again = veldt.resume(run.path, steps=5000, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    assert again.summary["steps"] >= 5000 and (after.groups["server"]["version"] > version_S).all()
    assert "the replay buffer is empty" not in " ".join(events(run.path, "resume"))
    # A checkpoint has one count for all shards, which may be an update ahead of a shard that said its part before.
    assert float(after.groups["optimiser"]["count"]) == pytest.approx(
        after.groups["server"]["version"].max(), abs=2
    )
    assert learning(run.path)[-1]["train/policy_lag_mean"] < sum(after.meta["rate_limiter"]["updates"])


def test_a_resumed_server_begins_with_the_checkpoints_parameters_and_state(tmp_path: Path) -> None:
    """No step is left to be made: what it has then is what it had."""
    run = veldt.train("gorila", env="CartPole-v1", run_dir=tmp_path / "run", **BUNDLES | {"steps": 1000})
    before = CheckpointStore(run.path / "checkpoints").newest(print)
    veldt.resume(run.path, steps=before.step, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    for group in ("weights", "optimiser", "server"):
        for name, array in before.groups[group].items():
            np.testing.assert_array_equal(after.groups[group][name], array, err_msg=f"{group} {name}")


@pytest.mark.parametrize("settings", [BUNDLES, APART], ids=["bundles", "apart"])
def test_continuous_actions(settings: Any, tmp_path: Path) -> None:
    run = veldt.train("gorila", env="Pendulum-v1", algorithm="ddpg", run_dir=tmp_path / "run", **settings)
    assert run.reason == "steps" and np.isfinite(learning(run.path)[-1]["train/critic_loss"])


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "vtrace"])
def test_a_gradient_server_for_fresh_rollouts(algorithm: str, tmp_path: Path) -> None:
    """Workers that push gradients to one reducer, and pull its model: Machin's A3C."""
    settings = {"learners": 3, "num_envs": 6, "steps": 3000, "hidden": (16,), "seed": 1, "quiet": True}
    run = veldt.train("gorila", env="CartPole-v1", algorithm=algorithm, run_dir=tmp_path / "run", **settings)
    assert run.reason == "steps" and np.isfinite(learning(run.path)[-1]["train/loss"])
    assert (CheckpointStore(run.path / "checkpoints").newest(print).groups["server"]["version"] > 10).all()


@pytest.mark.parametrize("by", ["updates", "steps"])
def test_exploration_is_annealed_by_the_updates_of_all_learners(by: str, tmp_path: Path) -> None:
    """Of which there are few with a threshold that discards most gradients."""
    settings = BUNDLES | {"epsilon_start": 1.0, "epsilon_end": 0.0, "epsilon_steps": 10_000, "anneal_by": by}
    settings |= {"max_staleness": 1, "learner_sync_interval": 10, "actor_sync_interval": 10**6}
    run = veldt.train("gorila", env="CartPole-v1", run_dir=tmp_path / by, **settings)
    version = CheckpointStore(run.path / "checkpoints").newest(print).groups["server"]["version"].min()
    by_updates, by_steps = int(version) * 16 / 4.0, run.summary["steps"] - 100
    assert by_updates < 0.7 * by_steps, "else it does not matter"
    done = by_updates if by == "updates" else by_steps
    assert metrics(run.path)[-1]["rollout/epsilon"] == pytest.approx(1.0 - done / 10_000, abs=0.03)


def test_an_actors_exploration_is_annealed_by_the_version_of_its_weights() -> None:
    config = DQNConfig(batch_size=16, training_intensity=4.0, learning_starts=100)
    actor: Any = SimpleNamespace(
        _algorithm=DQN(config, ActionSpec("discrete", sizes=(2,), start=(0,))),
        _plan=SimpleNamespace(anneals_by_updates=True),
        _rate_limiter=SimpleNamespace(steps=5000),
        _policy=SimpleNamespace(version=50),
    )
    assert _Actor._annealing_steps(actor) == 100 + 50 * 4
    actor._policy.version = 5000
    assert _Actor._annealing_steps(actor) == 5000, "no updates are due that were not"
    actor._plan.anneals_by_updates, actor._policy.version = False, 50
    assert _Actor._annealing_steps(actor) == 5000


def test_stale_gradients_are_discarded_and_counted(tmp_path: Path) -> None:
    """Of learners that take parameters once in ten gradients, most are more than an update old."""
    settings = BUNDLES | {
        "max_staleness": 1,
        "learner_sync_interval": 10,
        "steps": 6_000,
        "checkpoint_every": 50_000,
    }
    run = veldt.train(
        "gorila", env="CartPole-v1", run_dir=tmp_path / "run", **settings | {"actor_sync_interval": 10**6}
    )
    last = learning(run.path)[-1]
    checkpoint = CheckpointStore(run.path / "checkpoints").newest(print)
    gradients, stale, staleness = checkpoint.groups["server"]["counts"].sum(0).tolist()
    updates = int(checkpoint.groups["server"]["version"].sum())
    assert stale > 0.5 * gradients and gradients == updates + stale and staleness > 2 * stale - 1
    assert last["system/stale_gradient_share"] > 0.5 and last["system/stale_gradients"] > 0
    (note,) = (text for text in events(run.path, "note") if "of all gradients are discarded" in text)
    assert "because they are more than 1 updates old" in note and "raise --max-staleness" in note


def test_its_policy_is_evaluated_from_human_starts(tmp_path: Path) -> None:
    run = veldt.train("gorila", env="CartPole-v1", run_dir=tmp_path / "run", **BUNDLES | {"steps": 300})
    starts = veldt.record_starts(run.path, starts=3, out=tmp_path / "starts.safetensors")
    assert len(veldt.evaluate(run.path, starts=starts.path).scores) == 3


def test_an_evaluator_plays_with_the_servers_parameters(tmp_path: Path) -> None:
    settings = BUNDLES | {"evaluator_share": 0.3, "evaluate_every": 1000, "evaluate_steps": 500}
    run = veldt.train("gorila", env="CartPole-v1", run_dir=tmp_path / "run", **settings | {"steps": 8000})
    assert run.summary["episodes"] > 0 and len(events(run.path, "evaluation")) >= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learners": 4}, "--num-envs is 6 and --learners is 4: each learner must get as many"),
        ({"actors": 4, "horizon": None}, "--num-envs is 6 and --actors is 4: each actor"),
        ({"parameter_shards": 100_000}, "--parameter-shards is 100,000, and the network has .* take fewer"),
        ({"parameter_shards": 0}, "--parameter-shards is 0: it must be at least 1"),
        ({"max_staleness": -1}, "--max-staleness is -1: it must be 0"),
        ({"outlier_deviations": -0.5}, "--outlier-deviations is -0.5: it must be 0"),
        ({"anneal_by": "games"}, "--anneal-by is 'games'.*: it must be one of updates, steps"),
        ({"actor_chunk": 10}, "--actor-chunk would have no effect: --actors is 0"),
        ({"actors": 2}, "--horizon would have no effect in gorila: acting and learning do not"),
        ({"chunks": 2}, "--chunks is none of gorila's settings"),
        (
            {"network": "own_networks:with_batch_norm", "hidden": None},
            "learners share parameters only",
        ),
    ],
)
def test_impossible_settings_are_refused(settings: Any, message: str, tmp_path: Path) -> None:
    given = {name: value for name, value in (BUNDLES | settings).items() if value is not None}
    with pytest.raises(UsageError, match=message):
        veldt.train("gorila", env="CartPole-v1", run_dir=tmp_path / "run", **given)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_actors_need_an_algorithm_that_replays(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a2c learns from the rollout that was just sampled"):
        veldt.train("gorila", env="CartPole-v1", algorithm="a2c", run_dir=tmp_path / "run", actors=2)


@pytest.mark.parametrize(
    ("env", "settings"), [("CartPole-v1", {"algorithm": "a2c"}), ("Pendulum-v1", {"algorithm": "ddpg"})]
)
def test_anneal_by_is_refused_where_nothing_is_annealed(env: str, settings: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--anneal-by would have no effect: with these settings"):
        veldt.train("gorila", env=env, run_dir=tmp_path / "run", anneal_by="steps", **settings)
