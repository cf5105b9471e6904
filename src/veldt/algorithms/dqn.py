"""Deep Q-networks (Mnih et al. 2015), optionally double (van Hasselt et al. 2016) and dueling (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.q_learning import QLearning, QLearningConfig, shared_noise
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.functional.q_learning import huber, td_target


@dataclass(frozen=True, kw_only=True)
class DQNConfig(QLearningConfig):
    """Settings of DQN."""

    # Stooke & Abbeel, A.3: 2.5, 7.5 and 15 x 10^-4 for batches of 32, 512 and 1,024.
    _SCALING: ClassVar[Sequence[tuple[int, float]]] = ((32, 1.0), (512, 3.0), (1024, 6.0))


class DQN(QLearning):
    """Regresses Q(s, a) on the n-step return with the Huber loss."""

    name = "dqn"

    def values(self, output: Any) -> Tensor:
        return output

    def bellman_target(self, transitions: Transitions, next_output: Any, selector_NA: Tensor) -> Tensor:
        return td_target(transitions.reward, transitions.discount, next_output, selector_NA)

    def gather_action(self, output: Any, action_N: Tensor) -> Tensor:
        return output.gather(-1, action_N.unsqueeze(-1)).squeeze(-1)

    def loss(self, forward: Forward, batch: QLearningBatch, progress: float) -> Loss:
        q_NA = forward(batch.observation, *shared_noise(batch.noise))
        q_N = self.gather_action(q_NA, batch.action)
        error_N = batch.target - q_N
        loss = (batch.weight * huber(error_N)).mean()
        size_N = error_N.detach().abs()
        metrics = {"train/q_mean": q_N.detach().mean(), "train/td_error": size_N.mean()}
        return Loss(loss, metrics, size_N)
