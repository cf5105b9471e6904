"""SAC (Haarnoja et al. 2018b) as a plug-in of veldt: `veldt train sac --plugin sac --env Pendulum-v1`.

Actor, critics and temperature have a loss and an optimiser each, and only the critics have a target network. It runs in
Ape-X, too: `veldt train apex-ddpg --plugin sac --algorithm sac --env Pendulum-v1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import veldt
from veldt.algorithms.base import BuildTorso, Forward, Loss
from veldt.algorithms.capabilities import CONTINUOUS
from veldt.algorithms.groups import ParameterGroup, TargetNetwork
from veldt.algorithms.off_policy import OffPolicyConfig, ReplayAlgorithm
from veldt.algorithms.rollout import Observation
from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import ActionSpec
from veldt.functional.updates import Adam
from veldt.recipes import RECIPES, Recipe, Sourced
from veldt.setting_metadata import Range, Unit


@dataclass(frozen=True, kw_only=True)
class SACConfig(OffPolicyConfig):
    """Settings of SAC."""

    actor_learning_rate: Annotated[float, Unit("per update"), Range(0.0, above=True)] = 3e-4
    """Learning rate of the actor and of the temperature; --learning-rate is the critics'."""
    entropy_per_action: Annotated[float, Unit("nats")] = -1.0
    """Entropy that the temperature aims at, for each dimension of the action."""


class SACNetwork(nn.Module):
    """Returns means and log standard deviations [N, D] and the log temperature []; of given actions both Q, [2, N]."""

    def __init__(self, build_torso: BuildTorso, dimensions: int) -> None:
        super().__init__()
        torso = build_torso(activation="relu")
        self.actor = nn.Sequential(torso, nn.Linear(torso.features, 2 * dimensions))
        self.critics = nn.ModuleList(Critic(build_torso(activation="relu"), dimensions) for _ in range(2))
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def forward(self, observation: Observation, action: Tensor | None = None) -> Any:
        if action is not None:
            return torch.stack([critic(observation, action) for critic in self.critics])
        mean_ND, log_deviation_ND = self.actor(observation).chunk(2, -1)
        return mean_ND, log_deviation_ND.clamp(-20.0, 2.0), self.log_temperature


class Critic(nn.Module):
    """Q [N] of actions [N, D], which enter after the observation's torso."""

    def __init__(self, torso: Any, dimensions: int) -> None:
        super().__init__()
        self.torso = torso
        self.head = nn.Sequential(nn.Linear(torso.features + dimensions, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, observation: Observation, action_ND: Tensor) -> Tensor:
        return self.head(torch.cat([self.torso(observation), action_ND], -1)).squeeze(-1)


class SAC(ReplayAlgorithm):
    """Maximises the return plus the entropy of the policy, whose weight, the temperature, is learned."""

    name = "sac"
    capabilities = ReplayAlgorithm.capabilities | {CONTINUOUS}
    _config: SACConfig

    def __init__(self, config: SACConfig, action: ActionSpec) -> None:
        if not action.is_bounded:
            raise veldt.UsageError(
                "sac needs actions with finite bounds: use gymnasium.wrappers.TransformAction"
            )
        super().__init__(config, Adam())
        self._dimensions = action.shape[0]

    @property
    def groups(self) -> Sequence[ParameterGroup]:
        rate = self._config.actor_learning_rate
        return (
            ParameterGroup("critic", Adam(), ("critics.",)),
            ParameterGroup("actor", Adam(), ("actor.",), learning_rate=lambda progress: rate),
            ParameterGroup("temperature", Adam(), ("log_temperature",), learning_rate=lambda progress: rate),
        )

    @property
    def target_networks(self) -> Mapping[str, TargetNetwork]:
        return {"target": TargetNetwork(self._config.target_updates, self._config.tau, prefix="critics.")}

    def network(self, build_torso: BuildTorso) -> nn.Module:
        return SACNetwork(build_torso, self._dimensions)

    def action_noise(self, network: nn.Module) -> int:
        return self._dimensions

    def row_noise(self, network: nn.Module) -> int:
        return 2 * self._dimensions  # of the next action, in the target, and of the actor's, in the loss

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """[..., D + 1]: standard normals, or uniform actions where the last number is 1."""
        is_random = steps is not None and steps < self.learning_starts
        noise = 2.0 * uniform - 1.0 if is_random else torch.special.ndtri(uniform)
        return torch.cat([noise, torch.full_like(uniform[..., :1], float(is_random))], -1)

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        noise_ND, is_random_N1 = noise[..., :-1], noise[..., -1:]
        action_ND, _ = sample(*forward(observation)[:2], noise_ND)
        return torch.where(is_random_N1 > 0, noise_ND, action_ND), {}

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        return forward(observation)[0].tanh()

    @torch.no_grad()
    def targets(
        self, forward: Forward, target: Forward, transitions: Transitions
    ) -> tuple[Transitions, Tensor]:
        after = transitions.next_observation
        mean_ND, log_deviation_ND, log_temperature = forward(after)
        action_ND, log_prob_N = sample(
            mean_ND, log_deviation_ND, transitions.row_noise[:, : self._dimensions]
        )
        soft_N = target(after, action_ND).amin(0) - log_temperature.exp() * log_prob_N
        return transitions, transitions.reward + transitions.discount * soft_N

    def loss(self, forward: Forward, batch: tuple[Transitions, Tensor], progress: float) -> Loss:
        transitions, target_N = batch
        error_2N = forward(transitions.observation, transitions.action) - target_N
        mean_ND, log_deviation_ND, log_temperature = forward(transitions.observation)
        action_ND, log_prob_N = sample(
            mean_ND, log_deviation_ND, transitions.row_noise[:, self._dimensions :]
        )
        temperature = log_temperature.exp()
        value_N = forward(transitions.observation, action_ND).amin(0)
        # Each loss moves the parameters of its group alone: the actor's goes through the critics without moving them.
        losses = {
            "critic": 0.5 * (transitions.weight * error_2N.square()).sum(0).mean(),
            "actor": (temperature * log_prob_N - value_N).mean(),
            "temperature": -temperature
            * (log_prob_N.detach() + self._config.entropy_per_action * self._dimensions).mean(),
        }
        metrics = {"train/temperature": temperature.detach(), "train/entropy": -log_prob_N.detach().mean()}
        return Loss.of_groups(losses, metrics, error_2N.detach().abs().amax(0))


def sample(mean_ND: Tensor, log_deviation_ND: Tensor, noise_ND: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [N, D] in (-1, 1) and their log densities [N] (appendix C), differentiable in means and deviations."""
    before_ND = mean_ND + log_deviation_ND.exp() * noise_ND
    normal_ND = -0.5 * noise_ND.square() - log_deviation_ND - 0.5 * math.log(2.0 * math.pi)
    # The logarithm of tanh's slope, 1 - tanh², without cancellation.
    log_slope_ND = 2.0 * (math.log(2.0) - before_ND - F.softplus(-2.0 * before_ND))
    return before_ND.tanh(), (normal_ND - log_slope_ND).sum(-1)


_HAARNOJA = "Haarnoja et al. 2018b, table 1"
veldt.register_algorithm("sac", SAC, SACConfig)
veldt.register_recipe(
    Recipe(
        name="sac",
        algorithm="sac",
        system="synchronous",
        summary="Soft actor-critic with a learned temperature (Haarnoja et al. 2018b)",
        atari={},
        small={
            **{name: value for name, value in RECIPES["ddpg"].small.items() if name != "exploration_noise"},
            "hidden": Sourced((256, 256), _HAARNOJA),
            "batch_size": Sourced(256, _HAARNOJA),
            "training_intensity": Sourced(256.0, f"{_HAARNOJA}: an update each step"),
            "learning_rate": Sourced(3e-4, _HAARNOJA),
            "actor_learning_rate": Sourced(3e-4, _HAARNOJA),
            "gamma": Sourced(0.99, _HAARNOJA),
            "tau": Sourced(0.005, _HAARNOJA),
        },
    )
)
