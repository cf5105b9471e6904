"""Advantage actor-critic, batched over envs (Mnih et al. 2016; Stooke & Abbeel, section 5.2 and A.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.capabilities import RECURRENT
from veldt.algorithms.policy_gradient import PolicyGradient, PolicyGradientConfig
from veldt.algorithms.rmsprop import RMSPropConfig
from veldt.algorithms.rollout import Batch, Rollout, unroll_forward
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.losses import ValidRows
from veldt.setting_metadata import Unit

_REFERENCE_BATCH = 80  # 16 envs with 5 steps each; the learning rate is given for this batch


@dataclass(frozen=True, kw_only=True)
class A2CConfig(RMSPropConfig, PolicyGradientConfig):
    """Settings of A2C."""

    horizon: Annotated[int, Unit("steps")] = 5
    """Steps each env makes between updates."""
    scale_learning_rate: Literal["sqrt", "none"] = "sqrt"
    """How the learning rate scales with the batch; --learning-rate is for a batch of 80."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon < 1:
            raise UsageError(f"--horizon is {self.horizon}: it must be at least 1 step")
        self.check_rmsprop()


class A2C(PolicyGradient):
    """One update per rollout, on all of its rows."""

    name = "a2c"
    capabilities = PolicyGradient.capabilities | {RECURRENT}
    _config: A2CConfig

    def __init__(self, config: A2CConfig, action: ActionSpec) -> None:
        super().__init__(config, action, config.rmsprop())

    def horizon(self, num_envs: int) -> int:
        return self._config.horizon

    def learning_rate(self, progress: float, batch: int) -> float:
        scale = math.sqrt(batch / _REFERENCE_BATCH) if self._config.scale_learning_rate == "sqrt" else 1.0
        return super().learning_rate(progress, batch) * scale

    def minibatches(self, forward: Forward, rollout: Rollout, generator: torch.Generator) -> Iterator[Batch]:
        yield self.targets(forward, rollout)

    def loss(self, forward: Forward, batch: Batch, progress: float) -> Loss:
        parameters_NP, value_N, *_ = unroll_forward(forward, batch.recurrent)(batch.observation())
        log_prob_N, valid = self.distribution.log_prob(parameters_NP, batch.action), ValidRows(batch.valid)
        policy_loss = valid.mean(-log_prob_N * batch.advantage)
        value_loss = valid.mean((value_N - batch.target).square())
        ent_coef = self.ent_coef(progress)
        entropy = self.entropy(parameters_NP, valid, ent_coef)
        loss = policy_loss + self._config.vf_coef * value_loss - ent_coef * entropy
        metrics = {
            "train/policy_loss": policy_loss.detach(),
            "train/value_loss": value_loss.detach(),
            "train/entropy": entropy.detach(),
            "train/value_mean": valid.mean(value_N.detach()),
        }
        return Loss(loss, metrics, rows=valid.count)
