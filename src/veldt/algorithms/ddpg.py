"""Deep deterministic policy gradient (Lillicrap et al. 2016), for continuous actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from veldt.algorithms.base import BuildTorso, Forward, Loss
from veldt.algorithms.capabilities import CONTINUOUS, REPLAY
from veldt.algorithms.groups import ParameterGroup
from veldt.algorithms.off_policy import OffPolicyConfig, ReplayAlgorithm
from veldt.algorithms.rollout import Observation
from veldt.algorithms.schedule_settings import make_schedule
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.updates import Adam
from veldt.networks.deterministic import DeterministicActorCritic
from veldt.networks.own import OwnModules
from veldt.networks.own_heads import OwnDeterministic
from veldt.networks.precision import Network
from veldt.setting_metadata import Range, Unit
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(OffPolicyConfig):
    """Settings of DDPG."""

    actor_learning_rate: Annotated[float | str, Unit("per update"), Range(0.0, above=True)] = 1e-4
    """Learning rate of the actor, a number or a schedule; --learning-rate is the critic's."""
    adam_epsilon: Annotated[float, Unit("gradient")] = 1e-8
    """ε of Adam."""
    exploration_noise: Annotated[float, Unit("action range / 2")] = 0.1
    """Standard deviation of the Gaussian action noise in training."""
    action_gradient_clip: Annotated[float, Unit("dQ/da")] = 0.0
    """Limit on each element of the critic's gradient with respect to the action (1 in Ape-X DPG); 0 means no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adam_epsilon <= 0:
            raise UsageError(f"--adam-epsilon is {self.adam_epsilon}: it must be more than 0")
        for name in ("exploration_noise", "action_gradient_clip"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be 0 or more")


class DDPG(ReplayAlgorithm):
    """The critic regresses Q(s, a) on the return under the target actor; the actor follows dQ/da."""

    name = "ddpg"
    capabilities = frozenset({REPLAY, CONTINUOUS})
    _config: DDPGConfig

    def __init__(self, config: DDPGConfig, action: ActionSpec) -> None:
        if not action.is_bounded:
            raise UsageError(
                f"the actor's actions lie between bounds, and this environment's are {list(action.low)} to "
                f"{list(action.high)}: give it finite ones (gymnasium.wrappers.TransformAction), or take ppo"
            )
        super().__init__(config, Adam(epsilon=config.adam_epsilon))
        self._dimensions = action.shape[0]
        self._actor_rate = make_schedule(config, "actor_learning_rate")

    def network(self, build_torso: BuildTorso) -> Network:
        return DeterministicActorCritic(
            lambda: build_torso(last_layer=False, activation="relu"), self._dimensions
        )

    def own_network(self, own: OwnModules, build_torso: BuildTorso) -> Network:
        """See `OwnDeterministic`."""
        return OwnDeterministic(own, lambda: self.network(build_torso))

    def action_noise(self, network: nn.Module) -> int:
        return self._dimensions

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """[..., 2 D]: the noise to add to the policy's action, and the factor on the policy's action."""
        if steps is None:
            added, policy_factor = torch.zeros_like(uniform), torch.ones_like(uniform)
        elif steps < self._config.learning_starts:
            # Uniform actions: an untrained policy would stay in one corner.
            added, policy_factor = 2.0 * uniform - 1.0, torch.zeros_like(uniform)
        else:
            added = self._config.exploration_noise * torch.special.ndtri(uniform)
            policy_factor = torch.ones_like(uniform)
        return torch.cat([added, policy_factor], -1)

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return _explored(forward(observation), noise), {}

    def act_with_values(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        best_ND = forward(observation)
        action_ND = _explored(best_ND, noise)
        taken_N, best_N = forward(observation, action_ND), forward(observation, best_ND)
        return action_ND, {"taken": taken_N, "best": best_N}

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        return forward(observation)

    def value(self, forward: Forward, observation: Observation) -> Tensor:
        value: Tensor = forward(observation, forward(observation))
        return value

    @property
    def groups(self) -> Sequence[ParameterGroup]:
        actor = ParameterGroup("actor", self.rule, ("actor.", "model.actor."), learning_rate=self._actor_rate)
        return actor, ParameterGroup("critic", self.rule)

    @torch.no_grad()
    def targets(self, forward: Forward, target: Forward, transitions: Transitions) -> QLearningBatch:
        after = transitions.next_observation
        target_N = transitions.reward + transitions.discount * target(after, target(after))
        return QLearningBatch.of(transitions, target_N)

    def loss(self, forward: Forward, batch: QLearningBatch, progress: float) -> Loss:
        q_N = forward(batch.observation, batch.action)
        error_N = batch.target - q_N
        critic_loss = (batch.weight * error_N.square()).mean()
        action_ND = forward(batch.observation)
        # The deterministic policy gradient (equation 6) with dQ/da as a constant, so that it can be clipped.
        at_ND = action_ND.detach().requires_grad_()
        value_N = forward(batch.observation, at_ND)
        (slope_ND,) = torch.autograd.grad(value_N.sum(), at_ND)
        if self._config.action_gradient_clip:
            slope_ND = slope_ND.clamp(-self._config.action_gradient_clip, self._config.action_gradient_clip)
        actor_loss = -(action_ND * slope_ND).sum(-1).mean()
        metrics = {"train/q_mean": q_N.detach().mean(), "train/policy_q_mean": value_N.detach().mean()}
        losses = {"critic": critic_loss, "actor": actor_loss}
        return Loss.of_groups(losses, metrics, error_N.detach().abs())


def _explored(action_ND: Tensor, noise: Tensor) -> Tensor:
    """The policy's action with the prepared noise applied."""
    added_ND, policy_factor_ND = noise.chunk(2, -1)
    return (policy_factor_ND * action_ND + added_ND).clamp(-1.0, 1.0)
