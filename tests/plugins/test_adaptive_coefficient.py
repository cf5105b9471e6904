"""A number that an algorithm adapts between updates is a buffer of its network, and so it is in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import veldt
from run_state import SMALL, assert_same_run, newest
from veldt.algorithms.base import Loss
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.recipes import Recipe


class WithPenalty(nn.Module):
    """PPO's network, and the coefficient of a KL penalty (Schulman et al. 2017, section 4)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("penalty", torch.ones(()))

    def forward(self, observation: Any) -> Any:
        return *self.network(observation), self.penalty


class AdaptivePPO(PPO):
    def network(self, build_torso: Any, make_core: Any = None) -> nn.Module:
        return WithPenalty(super().network(build_torso))

    def loss(self, forward: Any, batch: Any, progress: float) -> Loss:
        loss = super().loss(forward, batch, progress)
        kl, penalty = self.kl(forward, batch)
        return loss._replace(
            total=loss.total + penalty * kl, metrics=loss.metrics | {"penalty": penalty.clone()}
        )

    def minibatches(self, *arguments: Any) -> Iterator[Any]:
        for batch in super().minibatches(*arguments):
            yield batch
        kl, penalty = self.kl(arguments[0], batch)
        penalty *= 2.0 if kl > 1e-5 else 0.5

    def kl(self, forward: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        parameters_NP, _, penalty = forward(batch.observation())
        log_ratio_N = self.distribution.log_prob(parameters_NP, batch.action) - batch.log_prob
        return (batch.valid * (log_ratio_N.exp() - 1.0 - log_ratio_N)).mean(), penalty


def test_a_resumed_run_has_the_number_of_the_uninterrupted_one(tmp_path: Path) -> None:
    veldt.register_algorithm("adaptive-ppo", AdaptivePPO, PPOConfig)
    veldt.register_recipe(Recipe("adaptive-ppo", "adaptive-ppo", "synchronous", "PPO", atari={}, small={}))
    given = SMALL | {"env": "CartPole-v1", "anneal_learning_rate": False, "anneal_clip": False, "quiet": True}
    veldt.train("adaptive-ppo", steps=400, run_dir=tmp_path / "whole", **given)
    veldt.train("adaptive-ppo", steps=200, run_dir=tmp_path / "half", **given)
    veldt.resume(tmp_path / "half", steps=400, quiet=True)
    assert float(newest(tmp_path / "half").groups["weights"]["penalty"]) not in (1.0, 0.0)
    assert_same_run(tmp_path / "whole", tmp_path / "half")
