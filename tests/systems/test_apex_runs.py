"""Whole runs of Ape-X, resumed, killed, and with some of their processes killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_runs import END_S, START_S, alive, child, descendants, roles, shared_memory, wait_until
from run_rows import episodes, events, learning, metrics

import veldt
from veldt.errors import RoleError, UsageError, VeldtError
from veldt.runs.checkpoints import Checkpoint, CheckpointStore

SMALL: dict[str, Any] = {
    "num_envs": 8,
    "actors": 2,
    "batch_size": 16,
    "training_intensity": 2.0,
    "learning_starts": 100,
    "buffer_size": 4000,
    "hidden": (16,),
    "steps": 3000,
    "evaluator_share": 0.0,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}


def test_a_run_does_its_steps_and_can_be_evaluated(tmp_path: Path) -> None:
    run = veldt.train(
        "apex-dqn", env="CartPole-v1", algorithm="rainbow", run_dir=tmp_path / "run", shards=2, **SMALL
    )
    assert run.reason == "steps" and 3000 <= run.summary["steps"] <= 3000 + 2 * 52, (
        "a slot of each actor more"
    )
    assert (run.summary["algorithm"], run.summary["system"]) == ("rainbow", "apex")
    last = learning(run.path)[-1]
    assert 0 <= last["train/policy_lag_min"] <= last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert np.isfinite(last["train/loss"]) and last["system/role_restarts"] == 0
    last = metrics(run.path)[-1]
    shares = [last[f"time/actor_{stage}_share"] for stage in ("simulate", "infer", "replay", "wait")]
    assert sum(shares) == pytest.approx(1.0)
    result = veldt.evaluate(run.path, episodes=3)
    assert len(result.scores) == 3
    checkpoint = CheckpointStore(run.path / "checkpoints").newest(print)
    _assert_rate_limit_is_kept(checkpoint)
    assert set(checkpoint.meta["segments"]) == {"shard-0", "shard-1"}
    rows = sum(segment["end"][0] for segment in checkpoint.meta["segments"]["shard-0"])
    assert rows > 0


def _assert_rate_limit_is_kept(checkpoint: Checkpoint) -> None:
    """Never more is learned than is due, and no less than by the slack; nothing is excused."""
    rate_limiter = checkpoint.meta["rate_limiter"]
    due, done = 2.0 * (sum(rate_limiter["steps"]) - 100), rate_limiter["updates"][0] * 16
    # Slots of 13 steps of 8 envs: one is written, three are on their way, and returns lack three steps.
    slack = 2 * (16 + 2.0 * 8 * (13 + 3 + 3 * 13))
    assert rate_limiter["waived"] == [0]
    assert 0 <= due - done <= 1.5 * slack, "and the steps since the learner said its part of the checkpoint"


def test_several_learners(tmp_path: Path) -> None:
    sizes = {"learners": 2, "shards": 2, "replay": "prioritised", "steps": 2000}
    run = veldt.train("apex-dqn", env="CartPole-v1", run_dir=tmp_path / "run", **SMALL | sizes)
    assert run.reason == "steps" and np.isfinite(learning(run.path)[-1]["train/loss"])
    assert metrics(run.path)[-1]["system/role_restarts"] == 0
    rate_limiter = CheckpointStore(run.path / "checkpoints").newest(print).meta["rate_limiter"]
    assert rate_limiter["updates"][0] == rate_limiter["updates"][1] > 50


def test_continuous_actions(tmp_path: Path) -> None:
    run = veldt.train("apex-ddpg", env="Pendulum-v1", run_dir=tmp_path / "run", **SMALL | {"n_step": 3})
    assert run.reason == "steps" and np.isfinite(learning(run.path)[-1]["train/critic_loss"])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_which_envs_episodes_are_the_score(share: float, tmp_path: Path) -> None:
    """The evaluator's, if there is one, and else those of the half that explores least."""
    settings = SMALL | {"evaluator_share": share, "steps": 1500}
    env = "environments:slow_cartpole"
    run = veldt.train("apex-dqn", env=env, run_dir=tmp_path / "run", **settings)
    games = episodes(run.path)
    counted = [game["env"] >= 8 if share else 4 <= game["env"] < 8 for game in games]
    assert run.summary["episodes"] == sum(counted) > 0
    assert {game["env"] for game in games} >= set(range(8)), "those of all are kept"


def test_a_resumed_run_continues_with_its_replay_buffer(tmp_path: Path) -> None:
    run = veldt.train("apex-dqn", env="CartPole-v1", run_dir=tmp_path / "run", **SMALL | {"steps": 2000})
    before = CheckpointStore(run.path / "checkpoints").newest(print)
    again = veldt.resume(run.path, steps=3000, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    assert (
        again.summary["steps"] >= 3000
        and after.meta["rate_limiter"]["updates"] > before.meta["rate_limiter"]["updates"]
    )
    assert after.meta["incarnations"]["actor 0"] == 2
    rows = [row for row in metrics(run.path) if row["step"] > before.step]
    assert min(row["replay/transitions"] for row in rows if "replay/transitions" in row) > 1300
    _assert_rate_limit_is_kept(after)
    # No game of the second life is one of the first again.
    games = episodes(run.path)
    acted = [game["seed"] for game in games if game["env"] < 8]
    assert len(set(acted)) == len(acted)


def test_a_run_resumed_without_its_replay_buffer_fills_it_again(tmp_path: Path) -> None:
    settings = SMALL | {"checkpoint_replay": "none", "steps": 1000}
    run = veldt.train("apex-dqn", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    assert not (run.path / "replay").exists()
    before = CheckpointStore(run.path / "checkpoints").newest(print)
    again = veldt.resume(run.path, steps=6000, quiet=True)
    assert again.summary["steps"] >= 6000
    (note,) = (text for text in events(run.path, "resume") if "replay buffer is empty" in text)
    assert "the checkpoint holds none" in note and "100 steps" in note
    assert 1.4 < metrics(run.path)[-1]["replay/training_intensity"] <= 2.0
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    more = after.meta["rate_limiter"]["updates"][0] - before.meta["rate_limiter"]["updates"][0]
    # Updates from before the resume do not count as updates from the new buffer.
    assert more * 16 > 1.4 * (6000 - before.step - 100)


def test_an_evaluation_by_the_protocol(tmp_path: Path) -> None:
    settings = SMALL | {"steps": 1000, "evaluate_every": 400, "evaluate_steps": 300}
    run = veldt.train("apex-dqn", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    assert len(events(run.path, "evaluation")) >= 1
    assert any("eval/ep_return_mean" in row for row in metrics(run.path))


def test_an_environment_that_fails_ends_the_run_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(VeldtError, match="the wheel came off") as caught:
        veldt.train("apex-dqn", env="faulty_envs:fails_after_a_while", run_dir=tmp_path / "run", **SMALL)
    assert isinstance(caught.value, RoleError) and "actor" in str(caught.value)
    assert "faulty_envs.py" in caught.value.details
    checkpoint = CheckpointStore(tmp_path / "run" / "checkpoints").newest(print)
    assert checkpoint.groups["weights"], "what was learned before is not lost"


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("apex-dqn", {"actors": 3}, "--num-envs is 8 and --actors is 3: each actor must get as many"),
        ("apex-dqn", {"shards": 3}, "--shards is 3, for 2 actors that can feed them"),
        (
            "apex-dqn",
            {"rate_limit_tolerance": 10.0},
            "would wait for each other without end; it must be at least",
        ),
        ("apex-dqn", {"algorithm": "ppo"}, "ppo does not fit: the system apex needs .* replay buffer"),
        ("apex-dqn", {"algorithm": "c52"}, "did you mean 'c51'"),
        ("apex-dqn", {"processes": 2}, "--actors sets the number of processes that act"),
        ("apex-dqn", {"buffer_size": 10**13}, r"needs .* GiB of memory"),
        (
            "apex-dqn",
            {"batches_ahead": 10**8},
            r"data between roles needs .*: most of it is for batches of 16",
        ),
        ("dqn", {"shards": 2, "actors": None}, "for actors apart from learners"),
    ],
)
def test_impossible_settings_are_refused(recipe: str, settings: Any, message: str, tmp_path: Path) -> None:
    given = {name: value for name, value in (SMALL | settings).items() if value is not None}
    with pytest.raises(UsageError, match=message):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


CODE = """
from veldt.cli import main
main(["train", "apex-dqn", "--env", "CartPole-v1", "--run-dir", "run", "--actors", "2", "--num-envs", "4",
      "--batch-size", "16", "--learning-starts", "100", "--hidden", "16", "--steps", "10**9".replace("10**9",
      "1000000000"), "--buffer-size", "5000", "--checkpoint-every", "500"])
"""


def await_checkpoint(run: Path, process: Any) -> None:
    def is_there() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return any(path.name != "step-000000000000" for path in run.glob("checkpoints/step-*"))

    wait_until(is_there, START_S, "a checkpoint")


@pytest.mark.alone
def test_a_killed_run_leaves_no_process_and_can_be_resumed(in_tmp: Path) -> None:
    before = shared_memory()
    with child(CODE, in_tmp) as process:
        await_checkpoint(in_tmp / "run", process)
        family = descendants(process.pid)
        assert {"learner", "replay", "actor 0", "actor 1"} <= roles(process.pid).keys()
        process.kill()
        wait_until(lambda: not alive(family), END_S, "all processes gone")
        wait_until(lambda: not shared_memory() - before, END_S, "shared memory gone")
    step = CheckpointStore(in_tmp / "run" / "checkpoints").newest(print).step
    again = veldt.resume(in_tmp / "run", steps=step + 500, quiet=True)
    assert again.reason == "steps" and again.summary["steps"] >= step + 500


def test_an_interrupted_run_writes_a_checkpoint_and_ends(in_tmp: Path) -> None:
    with child(CODE, in_tmp) as process:
        await_checkpoint(in_tmp / "run", process)
        family = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=START_S)
        assert process.returncode == 0, errors
        assert "its checkpoint is saved" in output and "Traceback" not in errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")
