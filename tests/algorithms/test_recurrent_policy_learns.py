"""What was seen at the beginning of an episode is recalled at its end, by a policy with an LSTM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_worlds import Recall

import veldt
from veldt.algorithms.a2c import A2CConfig
from veldt.algorithms.vtrace import VTraceConfig
from veldt.api import train_config
from veldt.config.train_config import NetworkConfig, RunConfig, TrainConfig
from veldt.envs.settings import EnvConfig
from veldt.envs.source import resolve

LEARN: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "a2c": (A2CConfig, {"learning_rate": 2e-3}),
    "vtrace": (VTraceConfig, {"optimiser": "adam", "learning_rate": 5e-3}),
}


def train(algorithm: str, run: Path, steps: int, **network: Any) -> veldt.Run:
    cls, learn = LEARN[algorithm]
    config = TrainConfig(
        recipe=algorithm,
        algorithm=algorithm,
        env=resolve(Recall).name,
        run=RunConfig(steps=steps, threads=1, device="cpu", precision="fp32", until=0.97),
        # A horizon that is no multiple of the episode's length: recurrent states continue from rollout to rollout.
        learn=cls(horizon=13, gamma=0.9, ent_coef=0.01, max_grad_norm=0.5, **learn),
        network=NetworkConfig(hidden=(16,), **network),
        envs=EnvConfig(num_envs=16, env_backend="in-process", alternate="on"),
    )
    return train_config(config, resolve(Recall), run_dir=run, quiet=True)


@pytest.mark.parametrize("algorithm", LEARN)
def test_a_cue_is_recalled_with_an_lstm_only(algorithm: str, tmp_path: Path) -> None:
    run = train(algorithm, tmp_path / "lstm", 200_000, lstm=16)
    assert run.reason == "until"
    result = veldt.evaluate(veldt.load(run.path, env=Recall), episodes=40, seed=3, greedy=True)
    assert result.mean == 1.0
    without = train(algorithm, tmp_path / "none", int(run.summary["steps"]))
    assert 0.3 < without.summary["ep_return_mean"] < 0.7


def test_a_cue_is_recalled_with_a_users_own_core(tmp_path: Path) -> None:
    """By chance, the mean return is 1/2."""
    run = train("a2c", tmp_path / "core", 200_000, core="own_parts:GRU")
    assert run.reason == "until"
    result = veldt.evaluate(veldt.load(run.path, env=Recall), episodes=40, seed=3, greedy=True)
    assert result.mean > 0.9
