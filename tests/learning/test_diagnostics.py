"""The opt-in metrics of updates: they are right, and change no bit of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, SMALL_REPLAYED, newest
from veldt.errors import UsageError
from veldt.learning.diagnostics import Diagnostics
from veldt.networks.flat import FlatParameters
from veldt.tracking.metrics import read_metrics

CART, BOX = "CartPole-v1", "environments:bounded_box"
ROLLOUTS: dict[str, Any] = {
    name: SMALL[name] for name in ("num_envs", "hidden", "threads", "precision", "device", "log_every")
}
RECURRENT: dict[str, Any] = ROLLOUTS | {"horizon": 5, "lstm": 8, "shared": True}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("ppo", CART, SMALL),
    "dqn": ("dqn", CART, SMALL_REPLAYED),
    "rainbow with noisy layers": ("rainbow", CART, SMALL_REPLAYED | {"noisy": True}),
    "ddpg": ("ddpg", BOX, SMALL_REPLAYED | {"target_update_interval": 0}),
    "a2c with an LSTM": ("a2c", CART, RECURRENT),
    "two learners of a2c with an LSTM": ("a2c", CART, RECURRENT | {"learners": 2}),
    "two learners of dqn": ("dqn", CART, SMALL_REPLAYED | {"learners": 2}),
}


@pytest.mark.parametrize("name", RUNS)
def test_they_change_no_bit(name: str, tmp_path: Path) -> None:
    recipe, env, settings = RUNS[name]
    made = {}
    for measured in (False, True):
        run = veldt.train(
            recipe,
            env=env,
            run_dir=tmp_path / f"{measured}",
            quiet=True,
            steps=640,
            log_norms=measured,
            log_saturation=measured,
            **settings,
        )
        made[measured] = newest(run.path).groups["weights"], read_metrics(run.path)[-1]
    plain, measured_weights = made[False][0], made[True][0]
    assert plain.keys() == measured_weights.keys()
    for key, array in plain.items():
        np.testing.assert_array_equal(array, measured_weights[key])
    row = made[True][1]
    assert -1 <= row["train/gradient_cosine"] <= 1 and row["norms/weights"] > 0 < row["norms/step"]
    assert row["norms/gradient"] == pytest.approx(row["train/grad_norm"], rel=1e-4)
    assert not any(name.startswith("norms/") for name in made[False][1])


def test_norms_and_cosine_of_one_update() -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 2)
    parameters = FlatParameters(network)
    diagnostics = Diagnostics(parameters, norms=True)
    x_N = torch.randn(8, 3)
    parameters.backward(network(x_N).square().sum())
    gradient_P = parameters.gradient.clone()
    before_P = parameters.fp32_params.clone()
    metrics = diagnostics.after_backward()
    parameters.fp32_params -= 0.1 * gradient_P
    metrics |= diagnostics.after_update()
    assert float(metrics["norms/gradient"]) == pytest.approx(float(gradient_P.norm()))
    assert float(metrics["norms/step"]) == pytest.approx(0.1 * float(gradient_P.norm()), rel=1e-5)
    assert float(metrics["norms/weights"]) == pytest.approx(float((before_P - 0.1 * gradient_P).norm()))
    assert float(metrics["norms/weights/bias"]) == pytest.approx(float(network.bias.detach().norm()))
    assert diagnostics.after_update() == {}


@pytest.mark.parametrize(
    ("recipe", "settings", "said"),
    [
        (
            "impala",
            {"num_envs": 1, "actors": 1, "unrolls": 1},
            "of one rollout, whose steps stay in their order",
        ),
        ("impala", {"num_envs": 2, "actors": 2, "unrolls": 2, "learners": 2}, "of one rollout"),
        ("ga3c", {"algorithm": "vtrace", "num_envs": 2, "group_rollouts": False}, "of one rollout"),
        ("a3c", {"lstm": 8, "shared": True, "num_envs": 2, "learners": 2}, "of one rollout"),
        ("dqn", {"batch_size": 1}, "of one step"),
        ("a2c", {"num_envs": 2, "learners": 2, "horizon": 1}, "of one step"),
    ],
)
def test_batches_that_have_no_half_are_refused(
    recipe: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"a batch with these settings is {said}.*, so that it has no half"):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", log_saturation=True, **settings)
    assert not (tmp_path / "run").exists()
