"""On a GPU: every recipe trains, is resumed, and is evaluated with and without the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_rows import metrics

import veldt
from veldt.recipes import RECIPES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
DEVICE = "cuda"  # --device auto takes the CPU for networks as small as these

REPLAYED: dict[str, Any] = {"batch_size": 32, "learning_starts": 300, "buffer_size": 4_000}
OF_SYSTEM: dict[str, dict[str, Any]] = {
    "synchronous": {},
    "asynchronous": {"learners": 1},  # a GPU for each learner
    "ga3c": {"agent_processes": 2},
    "gorila": {"learners": 1, "parameter_shards": 2},
    "apex": {"actors": 2},
    "impala": {"actors": 2},
}

# A paper recipe is another recipe's with values for Atari.
OWN = [name for name, recipe in RECIPES.items() if recipe.base is None]


def settings_of(name: str) -> dict[str, Any]:
    """Settings of a short run by one learner."""
    recipe = RECIPES[name]
    replayed = recipe.algorithm in ("dqn", "c51", "rainbow", "ddpg")
    return {
        "device": DEVICE,
        "num_envs": 8,
        "hidden": (16,),
        "steps": 1_500,
        "checkpoint_every": 500,
        "seed": 1,
        **(REPLAYED if replayed else {}),
        **OF_SYSTEM[recipe.system],
    }


def env_of(name: str) -> str:
    return "Pendulum-v1" if RECIPES[name].algorithm == "ddpg" else "CartPole-v1"


@pytest.mark.parametrize("name", OWN)
def test_a_run_is_trained_resumed_and_evaluated(name: str, tmp_path: Path) -> None:
    run = veldt.train(name, env=env_of(name), run_dir=tmp_path / "run", quiet=True, **settings_of(name))
    assert metrics(run.path)[-1]["train/updates"] > 0
    resumed = veldt.resume(run.path, steps=2_500, quiet=True)
    assert resumed.summary["steps"] >= 2_500
    scores = [
        veldt.evaluate(veldt.load(run.path, device=device), episodes=3, greedy=True, seed=1).scores
        for device in (DEVICE, "cpu")
    ]
    assert all(np.isfinite(of_device).all() for of_device in scores)


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="NCCL needs a GPU for each learner, and two of them"
)
@pytest.mark.parametrize("name", [name for name in OWN if RECIPES[name].system == "synchronous"])
def test_learners_with_a_gpu_each_exchange_gradients(name: str, tmp_path: Path) -> None:
    settings = settings_of(name) | {"learners": 2}
    run = veldt.train(name, env=env_of(name), run_dir=tmp_path / "run", quiet=True, **settings)
    assert metrics(run.path)[-1]["train/updates"] > 0
