"""A second learner, which is trained on the first one's replay buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from run_state import SMALL_REPLAYED, assert_same, newest, state_of
from veldt.errors import UsageError, VeldtError
from veldt.networks.normaliser import NAME
from veldt.systems.synchronous import second_learner
from veldt.tracking.metrics import read_metrics

SETTINGS: dict[str, Any] = SMALL_REPLAYED | {"env": "environments:scripted", "steps": 240}


def trained(path: Path, recipe: str = "dqn", **changes: Any) -> Path:
    veldt.train(recipe, run_dir=path, quiet=True, **(SETTINGS | changes))
    return path


def test_it_changes_no_bit_of_the_run(tmp_path: Path) -> None:
    """Not even the priorities of the replay buffer that both draw from."""
    alone = state_of(trained(tmp_path / "alone", "rainbow"))
    beside = state_of(trained(tmp_path / "beside", "rainbow", second_batch_size=24))
    own = {name for name in beside if name.startswith("second-")}
    assert {name.partition("/")[0] for name in own} == {"second-weights", "second-optimiser", "second-target"}
    assert_same(alone, {name: value for name, value in beside.items() if name not in own})


def test_it_equals_the_first_while_it_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first one's batch size and draws; with draws of its own it has other weights. Both normalise alike."""
    differences = {}
    for draws in (0, 1):
        monkeypatch.setattr(second_learner, "_OWN_DRAWS", draws)
        more = {"evaluate_every": 240, "evaluate_steps": 40, "normalise_observations": True}
        run = trained(tmp_path / str(draws), second_batch_size=SETTINGS["batch_size"], **more)
        row, groups = read_metrics(run)[-1], newest(run).groups
        first, second = (
            np.concatenate([a.ravel() for name, a in groups[g].items() if not name.startswith(NAME)])
            for g in ("weights", "second-weights")
        )
        statistics = [name for name in groups["weights"] if name.startswith(NAME)]
        assert len(statistics) == 3
        for name in statistics:
            np.testing.assert_array_equal(groups["weights"][name], groups["second-weights"][name])
        assert row["second/distance"] == pytest.approx(np.linalg.norm(first - second), rel=1e-4, abs=1e-9)
        assert row["second/weights_norm"] == pytest.approx(np.linalg.norm(second), rel=1e-4)
        assert row["second/first_weights_norm"] == pytest.approx(np.linalg.norm(first), rel=1e-4)
        differences[draws] = row["second/distance"]
        if draws == 0:
            assert row["second/ep_return_mean"] == row["eval/ep_return_mean"]
    assert differences[0] == 0 < differences[1]


def test_both_use_each_step_equally_often(tmp_path: Path) -> None:
    """From the same step on, each in batches of its own size."""
    meta = newest(trained(tmp_path / "run", second_batch_size=48, learning_starts=100)).meta["learners"]["0"]
    updates = meta["updates"], meta["second"]["updates"]
    assert updates[0] // 3 == updates[1] > 0


def test_without_the_replay_buffer_both_wait_until_it_is_filled_again(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", second_batch_size=24, checkpoint_replay="none")
    before = newest(run).meta["learners"]["0"]
    veldt.resume(run, steps=newest(run).step + 40, quiet=True)  # as many as learning starts after
    after = newest(run).meta["learners"]["0"]
    assert after["updates"] == before["updates"] and after["second"]["updates"] == before["second"]["updates"]
    veldt.resume(run, steps=newest(run).step + 200, checkpoint_replay="none", quiet=True)
    last = newest(run).meta["learners"]["0"]
    assert last["updates"] > after["updates"] and last["second"]["updates"] > after["second"]["updates"]


def test_no_checkpoint_is_of_a_second_learner_that_has_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = second_learner.SecondLearner.learn

    def diverges(self: second_learner.SecondLearner, before: int, steps: int) -> None:
        update(self, before, steps)
        self._own.parameters.fp32_params.fill_(np.nan)

    monkeypatch.setattr(second_learner.SecondLearner, "learn", diverges)
    with pytest.raises(VeldtError, match="the second learner's parameters are not finite at step"):
        trained(tmp_path / "run", second_batch_size=16)


@pytest.mark.parametrize(
    ("recipe", "changes", "said"),
    [
        ("dqn", {"second_batch_size": -1}, "--second-batch-size is -1: it must be 0"),
        ("dqn", {"second_batch_size": 16, "learners": 2}, "--learners is 2: a second learner"),
        ("dqn", {"second_batch_size": 41}, "--second-batch-size is 41, and learning starts after 40 steps"),
        ("dqn", {"second_batch_size": 100}, "--second-batch-size is 100, and a replay buffer for 120"),
        ("a2c", {"second_batch_size": 16}, "a2c learns from the rollout that was just sampled"),
        (
            "apex-dqn",
            {"second_batch_size": 16},
            r"is none of apex-dqn's settings: take a recipe that has it \(dqn, c51, rainbow; ddpg for",
        ),
    ],
)
def test_where_there_can_be_none(recipe: str, changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    settings = (SETTINGS if recipe == "dqn" else {"env": "CartPole-v1", "steps": 100}) | changes
    with pytest.raises(UsageError, match=said):
        veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()
