"""Categorical DQN (Bellemare et al. 2017), and Rainbow (Hessel et al. 2018), which is C51 with all extensions on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.q_learning import QLearning, QLearningConfig, shared_noise
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.q_learning import categorical_td_loss, expected, project
from veldt.runtime.devices import to_device
from veldt.setting_metadata import Unit

# Targets that lie within the support put little probability on its two ends.
_OUTER_ATOMS_LIMIT = 0.25


@dataclass(frozen=True, kw_only=True)
class C51Config(QLearningConfig):
    """Settings of Categorical DQN."""

    atoms: Annotated[int, Unit("atoms")] = 51
    """Number of atoms: the possible values of a return, evenly spaced."""
    value_min: Annotated[float, Unit("return")] = -10.0
    """Lowest atom."""
    value_max: Annotated[float, Unit("return")] = 10.0
    """Highest atom."""
    # Stooke & Abbeel, A.3: 4.2 x 10^-4 for batches of 256 and above, from the published 2.5 x 10^-4.
    _SCALING: ClassVar[Sequence[tuple[int, float]]] = ((32, 1.0), (256, 1.68))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.atoms < 2:
            raise UsageError(f"--atoms is {self.atoms}: it must be at least 2")
        if self.value_min >= self.value_max:
            raise UsageError(
                f"--value-min is {self.value_min:g} and --value-max {self.value_max:g}: the first must be the smaller"
            )

    def warn_about(self, metrics: Mapping[str, float]) -> str | None:
        share = metrics.get("train/outer_atoms_probability", 0.0)
        if share < _OUTER_ATOMS_LIMIT:
            return None
        return (
            f"{share:.0%} of the targets' probability is on the outermost of the atoms from --value-min "
            f"{self.value_min:g} to --value-max {self.value_max:g}: discounted returns beyond them cannot be learned; "
            "give bounds that hold the returns of this environment"
        )


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(C51Config):
    """Settings of Rainbow; by default with ε-greedy exploration instead of noisy layers."""

    n_step: Annotated[int, Unit("steps")] = 3
    """Number of rewards in an n-step return, before the target network's value."""
    double: bool = True
    """Double Q-learning: the online network selects the next action, the target network evaluates it."""
    dueling: bool = True
    """Dueling network: separate streams for the state value and the advantages."""
    _SCALING: ClassVar[Sequence[tuple[int, float]]] = ((32, 1.0),)  # Stooke & Abbeel, A.3: not scaled


class C51(QLearning):
    """Learns the distribution of returns on fixed atoms, with the cross-entropy to the projected target."""

    name = "c51"
    _config: C51Config

    def __init__(self, config: C51Config, action: ActionSpec) -> None:
        super().__init__(config, action)
        self.atoms = config.atoms
        self._support_Z = torch.linspace(config.value_min, config.value_max, config.atoms)
        self.reward_range = (config.value_min, config.value_max)

    def values(self, output: Any) -> Tensor:
        return expected(output, self._support(output))

    def bellman_target(self, transitions: Transitions, next_output: Any, selector_NA: Tensor) -> Tensor:
        next_NZ = self.gather_action(next_output, selector_NA.argmax(-1))
        return self._target(transitions.reward, transitions.discount, next_NZ)

    def gather_action(self, output: Any, action_N: Tensor) -> Tensor:
        return output[torch.arange(len(action_N), device=action_N.device), action_N]

    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        return categorical_td_loss(taken_N, self._target(reward_N, discount_N, best_N))[1]

    def _target(self, reward_N: Tensor, discount_N: Tensor, logits_NZ: Tensor) -> Tensor:
        """The distribution of r + discount z on the support, [N, Z]."""
        support_Z = self._support(logits_NZ)
        shifted_NZ = reward_N[:, None] + discount_N[:, None] * support_Z
        return project(logits_NZ.softmax(-1), support_Z, shifted_NZ)

    def loss(self, forward: Forward, batch: QLearningBatch, progress: float) -> Loss:
        logits_NAZ = forward(batch.observation, *shared_noise(batch.noise))
        logits_NZ = self.gather_action(logits_NAZ, batch.action)
        cross_entropy_N, divergence_N = categorical_td_loss(logits_NZ, batch.target)
        loss = (batch.weight * cross_entropy_N).mean()
        q_N = expected(logits_NZ.detach(), self._support(logits_NZ))
        metrics = {
            "train/q_mean": q_N.mean(),
            "train/kl_to_target": divergence_N.mean(),
            "train/outer_atoms_probability": (batch.target[:, 0] + batch.target[:, -1]).mean(),
        }
        return Loss(loss, metrics, divergence_N)

    def _support(self, like: Tensor) -> Tensor:
        if self._support_Z.device != like.device:
            self._support_Z = to_device(self._support_Z, like.device)
        return self._support_Z


class Rainbow(C51):
    """Categorical DQN with Rainbow's settings."""

    name = "rainbow"
