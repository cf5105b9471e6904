"""An algorithm that is none of veldt's, close to TD3 (Fujimoto et al. 2018).

The actor and the two critics have a loss, a rule and a rate each. Two target networks are copies of different parts.
Each row of a batch has noise of its own. One head more predicts rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from veldt.algorithms.base import BuildTorso, Forward, Loss
from veldt.algorithms.capabilities import CONTINUOUS
from veldt.algorithms.groups import ParameterGroup, TargetNetwork, Targets
from veldt.algorithms.off_policy import OffPolicyConfig, ReplayAlgorithm
from veldt.algorithms.registry import register_algorithm
from veldt.algorithms.rollout import Observation
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.functional.updates import Adam, RMSProp
from veldt.setting_metadata import Unit


@dataclass(frozen=True, kw_only=True)
class TwinConfig(OffPolicyConfig):
    """Settings."""

    actor_learning_rate: Annotated[float, Unit("per update")] = 3e-3
    """Learning rate of the actor."""
    actor_every: Annotated[int, Unit("updates")] = 2
    """Updates between updates of the actor."""
    smoothing: Annotated[float, Unit("action range / 2")] = 0.2
    """Standard deviation of the noise of the target's actions."""


class TwinNetwork(nn.Module):
    """Returns actions [N, D]; for given actions the values of both critics and the reward, [N, 3]."""

    def __init__(self, build_torso: BuildTorso, actions: int) -> None:
        super().__init__()
        torso = build_torso(activation="relu")
        self.actor = nn.Sequential(torso, nn.Linear(torso.features, actions), nn.Tanh())
        *critics, self.reward = (self._with_action(build_torso(activation="relu"), actions) for _ in range(3))
        self.critic = nn.ModuleList(critics)

    def _with_action(self, torso: Any, actions: int) -> nn.Module:
        return nn.ModuleList(
            [torso, nn.Sequential(nn.Linear(torso.features + actions, 32), nn.ReLU(), nn.Linear(32, 1))]
        )

    def forward(self, observation: Tensor, action: Tensor | None = None) -> Tensor:
        if action is None:
            return self.actor(observation)
        parts = [*self.critic, self.reward]
        return torch.cat([top(torch.cat([body(observation), action], -1)) for body, top in parts], -1)


class Twin(ReplayAlgorithm):
    """See the module."""

    name = "twin"
    capabilities = ReplayAlgorithm.capabilities | {CONTINUOUS}
    _config: TwinConfig

    def __init__(self, config: TwinConfig, action: ActionSpec) -> None:
        super().__init__(config, Adam())
        self._dimensions = action.shape[0]

    @property
    def groups(self) -> Sequence[ParameterGroup]:
        config = self._config
        return (
            ParameterGroup("critic", RMSProp(), ("critic.", "reward."), max_grad_norm=1.0),
            ParameterGroup(
                "actor",
                Adam(),
                ("actor.",),
                learning_rate=lambda progress: config.actor_learning_rate * (1.0 - progress),
                every=config.actor_every,
            ),
        )

    @property
    def target_networks(self) -> Mapping[str, TargetNetwork]:
        return {"slow": TargetNetwork(1, 0.02, "critic."), "late": TargetNetwork(5, 1.0, "actor.")}

    def network(self, build_torso: BuildTorso) -> nn.Module:
        return TwinNetwork(build_torso, self._dimensions)

    def action_noise(self, network: nn.Module) -> int:
        return self._dimensions

    def row_noise(self, network: nn.Module) -> int:
        return self._dimensions

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        if steps is None:
            return torch.zeros_like(uniform)
        return (uniform - 0.5) * (4.0 if steps < self.learning_starts else 0.6)

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return (forward(observation) + noise).clamp(-1.0, 1.0), {}

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        return forward(observation)

    @torch.no_grad()
    def targets(self, forward: Forward, target: Targets, transitions: Transitions) -> QLearningBatch:
        after = transitions.next_observation
        noise_ND = (self._config.smoothing * transitions.row_noise).clamp(-0.5, 0.5)
        action_ND = (target["late"](after) + noise_ND).clamp(-1.0, 1.0)
        next_N = target["slow"](after, action_ND)[:, :2].amin(-1)
        target_N = transitions.reward + transitions.discount * next_N
        seen = torch.stack([target_N, target_N, transitions.reward], -1)
        return QLearningBatch(
            transitions.observation, transitions.action, seen, transitions.weight, transitions.noise
        )

    def losses(self, forward: Forward, batch: Any, progress: float, due: Sequence[str]) -> Loss:
        error_N3 = batch.target - forward(batch.observation, batch.action)
        losses = {"critic": (batch.weight[:, None] * error_N3.square()).mean()}
        if "actor" in due:
            losses["actor"] = -forward(batch.observation, forward(batch.observation))[:, 0].mean()
        return Loss.of_groups(losses, {}, error_N3.detach()[:, 0].abs())


register_algorithm("twin", Twin, TwinConfig)


class Follow(gymnasium.Env[np.ndarray, Any]):
    """Episodes of one step: 1 minus the distance of the action from what is observed."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._seen = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self._seen, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self._seen, 1.0 - float(abs(action - self._seen)[0]), True, False, {}
