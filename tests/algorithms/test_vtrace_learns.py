"""V-trace learns in the synchronous system: the best arm, and values known in closed form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_worlds import Bandit, Clock

import veldt
from veldt.algorithms.vtrace import VTraceConfig
from veldt.api import Run, train_config
from veldt.config.train_config import NetworkConfig, RunConfig, TrainConfig
from veldt.envs.settings import EnvConfig
from veldt.envs.source import resolve

LENGTH, DISCOUNT = 5, 0.9


def train(make: Any, run: Path, resets: Any = "mid-batch", *, steps: int = 20_000, **learn: Any) -> Run:
    config = TrainConfig(
        recipe="vtrace",
        algorithm="vtrace",
        env=resolve(make).name,
        run=RunConfig(steps=steps, threads=1, device="cpu", precision="fp32"),
        learn=VTraceConfig(ent_coef=0.0, max_grad_norm=0.0, **learn),
        network=NetworkConfig(hidden=(32,)),
        envs=EnvConfig(num_envs=8, env_backend="in-process", resets=resets),
    )
    return train_config(config, resolve(make), run_dir=run, quiet=True)


@pytest.mark.parametrize("kind", ["discrete", "multi", "box"])
@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_the_best_arm_is_found(kind: str, optimiser: str, tmp_path: Path) -> None:
    def make() -> Bandit:
        return Bandit(kind)

    steps = 20_000 if kind == "box" else 10_000  # the deviation of a normal distribution falls slowly
    run = train(make, tmp_path / "run", steps=steps, optimiser=optimiser, horizon=16, learning_rate=1e-2)
    assert run.summary["ep_return_mean"] > (0.6 if kind == "box" else 0.95)
    agent, env = veldt.load(run.path, env=make), make()
    observation, _ = env.reset(seed=0)
    assert env.step(agent.act(observation, greedy=True))[1] >= (0.9 if kind == "box" else 1.0)


@pytest.mark.parametrize(
    ("ending", "values"),
    [
        ("terminated", [sum(DISCOUNT**k for k in range(LENGTH - t)) for t in range(LENGTH)]),
        ("truncated", [1 / (1 - DISCOUNT)] * LENGTH),
    ],
)
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_values(ending: str, values: list[float], resets: str, tmp_path: Path) -> None:
    """It bootstraps through a truncation, and not past a termination."""

    def make() -> Clock:
        return Clock(LENGTH, ending)

    run = train(
        make,
        tmp_path / "run",
        resets,
        gamma=DISCOUNT,
        horizon=16,
        learning_rate=5e-3,
        vf_coef=0.5,
    )
    agent = veldt.load(run.path, env=make)
    with torch.no_grad():
        _, learned = agent._network(torch.eye(LENGTH))
    np.testing.assert_allclose(learned, values, rtol=0.01)
