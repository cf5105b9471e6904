"""Whole runs of GA3C, resumed (test_matrix.py trains every algorithm); what is learned from; what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_rows import episodes, events, learning

import veldt
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.errors import UsageError
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.report import write_report
from veldt.runs.checkpoints import CheckpointStore
from veldt.systems.planning.run_plan import make_run_plan

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "agent_processes": 2,
    "predictors": 2,
    "trainers": 2,
    "training_rows": 0,
    "horizon": 5,
    "hidden": (16,),
    "steps": 4000,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}
PPO = {"algorithm": "ppo", "batch_size": 40, "minibatches": 2, "epochs": 2}


def with_ppo(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in (SMALL | settings).items()
        if name != "horizon" or "batch_size" not in settings
    }


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(PPO, marks=pytest.mark.long),
        {"lstm": 8, "shared": True},
        {
            "training_rows": 15,
            "agent_processes": 1,
            "predictors": 3,
            "trainers": 3,
            "prediction_batch": 2,
            "prediction_wait": 5.0,
        },
    ],
    ids=["ppo", "lstm", "other sizes"],
)
def test_a_run_does_its_steps_and_is_resumed(settings: dict[str, Any], tmp_path: Path) -> None:
    run = veldt.train("ga3c", env="CartPole-v1", run_dir=tmp_path / "run", **with_ppo(settings))
    algorithm = settings.get("algorithm", "a2c")
    rows = 10 if algorithm == "ppo" else 5
    assert run.reason == "steps" and 4000 <= run.summary["steps"] <= 4000 + 4 * rows, (
        "a rollout of each agent more"
    )
    assert (run.summary["algorithm"], run.summary["system"]) == (algorithm, "ga3c")
    last = learning(run.path)[-1]
    assert 0 <= last["train/policy_lag_min"] <= last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert np.isfinite(last["train/loss"])
    assert 1 <= last["system/prediction_batch_size"] <= settings.get("prediction_batch", 4)
    assert last["system/prediction_batch_size"] <= last["system/prediction_queue_length"] <= 4
    assert settings.get("training_rows", 1) / rows <= last["system/training_batch_size"] <= 2 * 4
    assert last["time/rollouts_per_second"] > 0 and last["time/predictions_per_second"] > 0
    assert run.summary["episodes"] == len(episodes(run.path)), "all games count"
    again = veldt.resume(run.path, steps=6000, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    assert again.summary["steps"] >= 6000 and sum(after.meta["rate_limiter"]["steps"]) >= 6000
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2


def test_by_default_agents_are_divided_among_the_cores() -> None:
    config = with_settings(find("ga3c").config("CartPole-v1"), {"num_envs": 6, "agent_processes": 0})
    run_plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    hosts = run_plan.config.roles.agent_processes  # type: ignore[attr-defined]
    assert hosts >= 1 and 6 % hosts == 0
    assert any(text.startswith("6 agents in ") for text in run_plan.decisions)


def test_a_reward_at_the_end_of_the_episode_is_learned_from(tmp_path: Path) -> None:
    run = veldt.train(
        "ga3c",
        env="environments:rewarded_at_the_end",
        run_dir=tmp_path / "run",
        **(SMALL | {"steps": 100_000, "until": 0.9, "hidden": (32,)}),
    )
    assert run.reason == "until"


def test_an_environment_that_raises_ends_the_run_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(veldt.VeldtError, match="the wheel came off") as caught:
        veldt.train("ga3c", env="faulty_envs:fails_after_a_while", run_dir=tmp_path / "run", **SMALL)
    assert "in _spoil" in caught.value.details


def test_an_error_in_a_thread_of_the_model_process_ends_the_run(tmp_path: Path) -> None:
    settings = {"learning_rate": 1e30, "steps": 1_000_000}
    with pytest.raises(veldt.VeldtError, match="training has diverged"):
        veldt.train("ga3c", env="environments:lopsided_box", run_dir=tmp_path / "run", **(SMALL | settings))


def test_the_tuner_changes_threads_and_agents_and_notes_it(tmp_path: Path) -> None:
    settings = {"steps": 12_000, "tuner_interval": 0.3, "tuner_most": 3, "tune_agents": True}
    run = veldt.train("ga3c", env="CartPole-v1", run_dir=tmp_path / "run", **(SMALL | settings))
    rows = learning(run.path)
    for name, most in (("predictors", 3), ("trainers", 3), ("agents", 4)):
        numbers = {row[f"system/{name}"] for row in rows}
        assert numbers <= set(range(1, most + 1))
    settings_seen = {
        tuple(row[f"system/{name}"] for name in ("predictors", "trainers", "agents")) for row in rows
    }
    assert len(settings_seen) > 1
    decisions = events(run.path, "tuner")
    assert decisions and all(text.endswith((": kept", ": reverted")) for text in decisions)
    page = write_report([run.path], run.path / "report.html").read_text()
    for title in ("Predictors", "Trainers", "Agents", "Prediction queue"):
        assert title in page
    assert decisions[0] in page
    kept = CheckpointStore(run.path / "checkpoints").newest(print).meta["learners"]["0"]
    assert set(kept) == {"predictors", "trainers", "agents"}


def test_ungrouped_each_rollout_is_an_update(tmp_path: Path) -> None:
    settings = {"group_rollouts": False, "tuner_interval": 0.3, "tuner_most": 3, "steps": 3000}
    del (own := SMALL | settings)["training_rows"]
    run = veldt.train("ga3c", env="CartPole-v1", run_dir=tmp_path / "run", **own)
    rows = learning(run.path)
    assert {row["system/training_batch_size"] for row in rows} <= {0.0, 1.0}
    assert rows[-1]["time/updates_per_second"] > 0 and rows[-1]["time/rollouts_per_second"] > 0
    # A rollout has at most 5 steps; those that nobody took before the end are no updates.
    assert rows[-1]["step"] / 5 - 8 <= rows[-1]["train/updates"] <= run.summary["steps"]
    assert all(" updates/s, and " in text for text in events(run.path, "tuner"))


def test_without_a_tuner_the_numbers_of_threads_and_agents_are_fixed(tmp_path: Path) -> None:
    settings = {"tuner_interval": 0.0, "predictors": 3, "trainers": 1, "steps": 2000}
    run = veldt.train("ga3c", env="CartPole-v1", run_dir=tmp_path / "run", **(SMALL | settings))
    seen = {(row["system/predictors"], row["system/trainers"]) for row in learning(run.path)}
    assert seen == {(3, 1)} and not events(run.path, "tuner")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": "dqn"},
            "dqn does not fit: the system ga3c needs .* one of a2c, ppo, vtrace$",
        ),
        (
            {"agent_processes": 3},
            "--num-envs is 4 and --agent-processes is 3: each agent process must get as many envs",
        ),
        ({"agent_processes": -1}, r"--agent-processes is -1: it must be 0 \(automatic\) or more"),
        ({"predictors": 0}, "--predictors is 0: it must be at least 1"),
        ({"trainers": 0}, "--trainers is 0: it must be at least 1"),
        ({"prediction_batch": 0}, "--prediction-batch is 0: it must be at least 1"),
        (
            {"learners": 2},
            "--learners is 2, and the system ga3c has one model .*: it must be 1; take more --trainers",
        ),
        ({"training_queue": 1}, "--training-queue is 1, and there are 2 agent processes"),
        (
            {"training_queue": 2, "training_rows": 12},
            "--training-rows is 12, which are 3 rollouts of 5 steps, and ",
        ),
        ({"prediction_wait": -1.0}, r"--prediction-wait is -1: it must be in \[0, 1000\] ms \(0: none\)"),
        ({"prediction_wait": 1e6}, r"--prediction-wait is 1e\+06: it must be in \[0, 1000\] ms"),
        ({"tuner_interval": -1.0}, r"--tuner-interval is -1: it must be 0 seconds \(off\) or more"),
        (
            {"tuner_interval": 0.0, "tune_agents": True},
            "--tune-agents would have no effect: --tuner-interval is 0",
        ),
        ({"tuner_interval": 0.0, "tuner_most": 3}, "--tuner-most would have no effect"),
        (
            {"group_rollouts": False},
            "--training-rows would have no effect: --no-group-rollouts makes an update of each rollout",
        ),
        ({"tuner_interval": float("nan")}, "it must be a finite number"),
        ({"predictors": 1.5}, "it must be a whole number"),
        ({"processes": 2}, "--agent-processes sets the number of agent processes"),
        ({"alternate": "on"}, "each agent steps on its own"),
        ({"actors": 2}, "--actors is none of ga3c's settings"),
        ({"shards": 2}, "--shards is none of ga3c's settings"),
        ({"cluster": "local"}, "memory that machines do not share; leave --cluster out"),
    ],
)
def test_impossible_settings_are_refused(settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.train("ga3c", env="CartPole-v1", run_dir=tmp_path / "run", **(SMALL | settings))
    assert not (tmp_path / "run").exists()
