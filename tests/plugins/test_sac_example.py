"""`examples/sac.py`: an algorithm of several losses, from outside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution

import veldt

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT: dict[str, Any] = {
    "env": "Pendulum-v1",
    "steps": 600,
    "learning_starts": 256,
    "batch_size": 32,
    "training_intensity": 32.0,
    "hidden": (16,),
}


@pytest.fixture
def sac(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return __import__("sac")


def test_the_density_of_its_actions_is_that_of_torchs_distribution(sac: Any) -> None:
    torch.manual_seed(0)
    mean_ND, log_deviation_ND, noise_ND = (torch.randn(50, 3) for _ in range(3))
    action_ND, log_prob_N = sac.sample(mean_ND, log_deviation_ND, noise_ND)
    expected = TransformedDistribution(Normal(mean_ND, log_deviation_ND.exp()), [TanhTransform(cache_size=1)])
    before_ND = mean_ND + log_deviation_ND.exp() * noise_ND
    assert torch.equal(action_ND, before_ND.tanh())
    inside_N = (action_ND.abs() < 0.999).all(-1)  # beyond it torch's own result is not exact
    assert inside_N.sum() > 20
    torch.testing.assert_close(
        log_prob_N[inside_N], expected.log_prob(action_ND).sum(-1)[inside_N], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(("recipe", "settings"), [("sac", {}), ("apex-ddpg", {"actors": 1, "num_envs": 2})])
def test_it_runs_in_one_process_and_in_ape_x(
    recipe: str, settings: dict[str, Any], sac: Any, tmp_path: Path
) -> None:
    run = veldt.train(
        recipe, algorithm="sac", run_dir=tmp_path / "run", threads=1, quiet=True, **SHORT | settings
    )
    weights = veldt.load(run.path).network.state_dict()
    assert weights["log_temperature"] != 0.0
    agent = veldt.load(run.path)
    observation, _ = agent.make_env().reset(seed=1)
    assert agent.make_env().action_space.contains(agent.act(observation))
    assert abs(agent.act(observation, greedy=True)) <= 2.0
