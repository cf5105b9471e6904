"""QR-DQN (Dabney et al. 2018) as a plug-in of veldt: `veldt train qr-dqn --plugin qr_dqn --env CartPole-v1`.

The network predicts N quantiles of the return of each action. It runs in every system that DQN runs in:
`veldt train apex-dqn --plugin qr_dqn --algorithm qr-dqn --env CartPole-v1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

import veldt
from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.q_learning import QLearning, QLearningConfig, shared_noise
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.recipes import RECIPES, Recipe, Sourced
from veldt.setting_metadata import Range, Unit


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(QLearningConfig):
    """Settings of QR-DQN."""

    quantiles: Annotated[int, Unit("quantiles"), Range(1)] = 200
    """Number of quantiles of the return."""
    kappa: Annotated[float, Unit("return"), Range(0.0, above=True)] = 1.0
    """Where the Huber loss changes from squared to absolute error."""


class QRDQN(QLearning):
    """Regresses the quantiles of the return with the quantile Huber loss."""

    name = "qr-dqn"
    _config: QRDQNConfig

    def __init__(self, config: QRDQNConfig, action: ActionSpec) -> None:
        super().__init__(config, action)
        self.atoms = config.quantiles  # outputs of the network for each action

    def values(self, output: Any) -> Tensor:
        return output.mean(-1)

    def gather_action(self, output: Any, action_N: Tensor) -> Tensor:
        return output[torch.arange(len(action_N), device=action_N.device), action_N]

    def bellman_target(self, transitions: Transitions, next_output: Any, selector_NA: Tensor) -> Tensor:
        next_NQ = self.gather_action(next_output, selector_NA.argmax(-1))
        return transitions.reward[:, None] + transitions.discount[:, None] * next_NQ

    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        return quantile_huber(taken_N, reward_N[:, None] + discount_N[:, None] * best_N, self._config.kappa)

    def loss(self, forward: Forward, batch: QLearningBatch, progress: float) -> Loss:
        output_NAQ = forward(batch.observation, *shared_noise(batch.noise))
        predicted_NQ = self.gather_action(output_NAQ, batch.action)
        loss_N = quantile_huber(predicted_NQ, batch.target, self._config.kappa)
        loss = (batch.weight * loss_N).mean()
        return Loss(loss, {}, loss_N.detach())


def quantile_huber(predicted_NQ: Tensor, target_NQ: Tensor, kappa: float) -> Tensor:
    """The quantile Huber loss of each row, [N] (Dabney et al. 2018, equation 10)."""
    count = predicted_NQ.shape[-1]
    tau_Q = (torch.arange(count, device=predicted_NQ.device) + 0.5) / count
    error_NQT = target_NQ[:, None, :] - predicted_NQ[:, :, None]
    absolute = error_NQT.abs()
    huber = torch.where(absolute <= kappa, 0.5 * error_NQT**2, kappa * (absolute - 0.5 * kappa)) / kappa
    return ((tau_Q[:, None] - (error_NQT.detach() < 0).float()).abs() * huber).mean(-1).sum(-1)


veldt.register_algorithm("qr-dqn", QRDQN, QRDQNConfig)
veldt.register_recipe(
    Recipe(
        name="qr-dqn",
        algorithm="qr-dqn",
        system="synchronous",
        summary="DQN that learns quantiles of the return (Dabney et al. 2018)",
        atari={**RECIPES["dqn"].atari, "learning_rate": Sourced(5e-5, "Dabney et al. 2018, section 5.2")},
        small={**RECIPES["dqn"].small, "quantiles": Sourced(32, "measured here")},
    )
)
