"""Whole runs of IMPALA, resumed, with replayed unrolls, an LSTM, and several learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_rows import episodes, learning

import veldt
from veldt.config.impala_settings import ImpalaConfig
from veldt.config.stored_config import from_dict, to_dict
from veldt.errors import UsageError
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoints import CheckpointStore

SMALL: dict[str, Any] = {
    "num_envs": 8,
    "actors": 2,
    "unrolls": 8,
    "horizon": 5,
    "hidden": (16,),
    "steps": 4000,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"replay_share": 0.5, "replay_unrolls": 40},
        pytest.param({"lstm": 8, "shared": True}, marks=pytest.mark.long),
        {"learners": 2},
    ],
    ids=lambda settings: "-".join(settings) or "plain",
)
def test_a_run_does_its_steps_and_is_resumed(settings: dict[str, Any], tmp_path: Path) -> None:
    run = veldt.train("impala", env="CartPole-v1", run_dir=tmp_path / "run", **(SMALL | settings))
    assert run.reason == "steps" and run.summary["steps"] >= 4000
    assert "learners" in settings or run.summary["steps"] <= 4000 + 2 * 20, "a slot of each actor more"
    assert (run.summary["algorithm"], run.summary["system"]) == ("vtrace", "impala")
    last = learning(run.path)[-1]
    fresh = 4 if "replay_share" in settings else 8
    rate_limiter = CheckpointStore(run.path / "checkpoints").newest(print).meta["rate_limiter"]
    assert rate_limiter["updates"][0] == pytest.approx(sum(rate_limiter["steps"]) / (fresh * 5), rel=0.2)
    assert 0 <= last["train/policy_lag_min"] <= last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    if not settings:
        assert last["train/policy_lag_mean"] < 20, "a few slots at most are under way"
    assert np.isfinite(last["train/loss"]) and 0 < last["train/rho_mean"] <= 1.0
    assert run.summary["episodes"] == len(episodes(run.path)), "all games count"
    again = veldt.resume(run.path, steps=6000, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    assert again.summary["steps"] >= 6000 and sum(after.meta["rate_limiter"]["steps"]) >= 6000
    assert not list(run.path.glob(".learners-*"))
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2


@pytest.mark.parametrize(
    ("actors", "learners", "unrolls", "batch"), [(2, 1, 6, 8), (2, 2, 6, 8), (4, 2, 0, 8), (8, 1, 3, 3)]
)
def test_a_batch_is_whole_unrolls_of_actors(actors: int, learners: int, unrolls: int, batch: int) -> None:
    settings = ImpalaConfig(actors=actors, learners=learners, unrolls=unrolls)
    assert settings.batch_unrolls(8) == batch


@pytest.mark.parametrize("share", [1e-6, 0.1, 0.3, 0.5, 0.8, 0.9, 0.999])
def test_the_advice_for_a_replay_share_that_rounds_to_zero_is_a_valid_setting(share: float) -> None:
    advice = ImpalaConfig(actors=1, replay_share=share).as_it_comes(8)
    unrolls = int(advice.split()[-2])
    settings = ImpalaConfig(actors=1, replay_share=share, unrolls=unrolls, replay_unrolls=unrolls)
    settings.check_envs(8)
    assert settings.drawn_slots(8) > 0


def test_a_run_that_has_a_share_too_small_for_its_batches_can_still_be_read() -> None:
    settings = {name: value for name, value in SMALL.items() if name != "quiet"} | {"replay_share": 0.1}
    config = with_settings(find("impala").config("CartPole-v1"), settings)
    assert from_dict(to_dict(config)) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "a2c"}, "a2c does not fit: the system impala needs an algorithm that corrects"),
        ({"algorithm": "ppo"}, "take vtrace"),
        ({"algorithm": "dqn"}, "dqn does not fit"),
        ({"learners": 3, "unrolls": 12}, "--learners is 3, and there are 2 actors"),
        ({"replay_share": 0.9}, "leaves nothing new"),
        ({"replay_share": 0.1}, "of which nothing is left in a batch of 8 unrolls"),
        ({"replay_share": 0.1, "actors": 1, "unrolls": 0}, "nothing is left .*: take at least 48 --unrolls$"),
        ({"replay_share": 0.9, "actors": 1, "unrolls": 0}, "nothing new .*: take at least 40 --unrolls$"),
        ({"replay_share": 0.5, "replay_unrolls": 4}, "it must be at least a batch, 8"),
        ({"replay_unrolls": 400}, "--replay-unrolls would have no effect"),
        ({"replay_share": 0.5, "replay_unrolls": 10**12}, r"needs .* GiB of memory, .* would fit"),
        ({"shards": 2}, "--shards is none of impala's settings"),
        ({"processes": 2}, "--actors sets the number of processes that act"),
    ],
)
def test_impossible_settings_are_refused(settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.train("impala", env="CartPole-v1", run_dir=tmp_path / "run", **(SMALL | settings))
    assert not (tmp_path / "run").exists()
