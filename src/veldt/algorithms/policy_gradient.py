"""Base of A2C, PPO and V-trace: acting with a stochastic policy, and the rewards and episode ends of a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from veldt.algorithms.base import BuildTorso, Forward, MakeCore, OnPolicy
from veldt.algorithms.capabilities import CONTINUOUS, DISCRETE, MULTI_DISCRETE, ON_POLICY, RECURRENT
from veldt.algorithms.rollout import Batch, Observation, Rollout, bootstrap_forward, unroll_forward
from veldt.algorithms.schedule_settings import make_schedule
from veldt.algorithms.settings import AlgorithmConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.losses import ValidRows
from veldt.functional.returns import generalised_advantages
from veldt.functional.updates import UpdateRule
from veldt.networks.actor_critic import ActorCritic, policy_distribution
from veldt.networks.own import OwnModules
from veldt.networks.own_heads import OwnActorCritic, OwnPolicyModel, OwnRecurrentModel
from veldt.networks.precision import Network
from veldt.networks.recurrent import RecurrentActorCritic
from veldt.setting_metadata import Range, Unit
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(AlgorithmConfig):
    """Settings of all policy-gradient algorithms."""

    learning_rate: Annotated[float | str, Unit("per update"), Range(0.0, above=True)] = 7e-4
    """Learning rate: a number, or a schedule such as linear:7e-4:0 or module:function."""
    anneal_learning_rate: bool = False
    """Lower the learning rate, if it is a number, linearly to 0 over the run's steps."""
    gamma: Annotated[float, Unit("per step")] = 0.99
    """Discount factor γ."""
    gae_lambda: Annotated[float, Unit("per step")] = 1.0
    """λ of generalised advantage estimation; 1 is the n-step return."""
    ent_coef: Annotated[float | str, Unit("per nat"), Range(0.0)] = 0.01
    """Coefficient of the policy's entropy in the loss: a number or a schedule."""
    vf_coef: Annotated[float, Unit("weight")] = 0.25
    """Coefficient of the value's mean squared error in the loss (0.25 is A3C's ½ · ½)."""
    max_grad_norm: Annotated[float, Unit("norm")] = 0.5
    """Upper limit of the gradient's norm; 0 means no limit."""
    clip_rewards: bool = True
    """Learn from rewards clipped to [-1, 1]; reported returns are always raw."""
    normalise_rewards: bool = False
    """Learn from rewards divided by the standard deviation of the running discounted return, then clipped to ±10;
    reported returns are always raw."""
    terminal_on_life_loss: bool = True
    """Learn from a lost life as from a termination (without a reset of the env)."""
    shared: bool = True
    """Policy and value share one torso."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be in [0, 1]")
        for name in ("vf_coef", "max_grad_norm"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be 0 or more")
        if self.normalise_rewards and self.clip_rewards:
            raise UsageError(
                "--normalise-rewards and --clip-rewards are both on, which would clip normalised rewards to [-1, 1]: "
                "give --no-clip-rewards to normalise them, or --no-normalise-rewards to clip them"
            )

    def unread(self) -> dict[str, str]:
        if isinstance(self.learning_rate, str):
            return {"anneal_learning_rate": f"--learning-rate is a schedule, {self.learning_rate}"}
        return {}

    def annealed_settings(self) -> list[str]:
        falls = self.anneal_learning_rate and not isinstance(self.learning_rate, str)
        return [*super().annealed_settings(), *(["learning_rate"] if falls else [])]


class PolicyGradient(OnPolicy):
    """See `OnPolicy`."""

    capabilities = frozenset({ON_POLICY, DISCRETE, MULTI_DISCRETE, CONTINUOUS})

    def __init__(self, config: PolicyGradientConfig, action: ActionSpec, rule: UpdateRule) -> None:
        self._config, self._action, self.rule = config, action, rule
        self.distribution = policy_distribution(action)
        self._rate = make_schedule(config, "learning_rate", falls=config.anneal_learning_rate)
        self.ent_coef = make_schedule(config, "ent_coef")
        self.max_grad_norm = config.max_grad_norm
        self.reward_statistics_gamma = config.gamma if config.normalise_rewards else None

    def network(self, build_torso: BuildTorso, make_core: MakeCore | None = None) -> Network:
        if make_core is not None:
            return RecurrentActorCritic(build_torso, self._action, make_core)
        return ActorCritic(build_torso, self._action, self._config.shared)

    def own_network(self, own: OwnModules, build_torso: BuildTorso) -> Network:
        """See `OwnActorCritic`, `OwnPolicyModel` and `OwnRecurrentModel`."""
        model = own.get("model")
        if model is None:
            return OwnActorCritic(own, build_torso)
        if not hasattr(model, "initial_state"):
            return OwnPolicyModel(own)
        if RECURRENT not in self.capabilities:
            own.refuse(
                "model", self.name, "learns from rows out of their order, and the model has a recurrent state"
            )
        return OwnRecurrentModel(own)

    def action_noise(self, network: nn.Module) -> int:
        return self.distribution.num_noise

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        return self.distribution.prepare(uniform)

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        parameters, value, *_ = forward(observation)
        return self.distribution.sample(parameters, noise), {"policy": parameters, "value": value}

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        return self.distribution.mode(forward(observation)[0])

    def value(self, forward: Forward, observation: Observation) -> Tensor:
        value: Tensor = forward(observation)[1]
        return value

    def policy(self, forward: Forward, observation: Observation) -> dict[str, Tensor]:
        return self.distribution.described(forward(observation)[0])

    def learning_rate(self, progress: float, batch: int) -> float:
        return self._rate(progress)

    def entropy(self, parameters_NP: Tensor, valid: ValidRows, ent_coef: float) -> Tensor:
        """Mean entropy of the policy over valid rows, []; it has a gradient only if its coefficient is not 0."""
        with torch.set_grad_enabled(ent_coef > 0):
            return valid.mean(self.distribution.entropy(parameters_NP))

    def learning_signals(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards to learn from, discounts and traces (see `functional.returns`), float32 [T, B] each."""
        config = self._config
        reward_TB = rollout.reward.clamp(-1.0, 1.0) if config.clip_rewards else rollout.reward
        terminal_TB = (
            rollout.terminated | rollout.life_lost if config.terminal_on_life_loss else rollout.terminated
        )
        over_TB = terminal_TB | rollout.truncated | rollout.interrupted | ~rollout.valid
        return reward_TB, config.gamma * (~terminal_TB).float(), (~over_TB).float()

    @torch.no_grad()
    def targets(self, forward: Forward, rollout: Rollout) -> Batch:
        """Computes advantages and value targets of all T B rows, from the values that the actor computed.

        A rollout without values was sampled with other parameters. Then all values are recomputed with the present
        parameters: with values of two versions, every advantage would contain the change of V between the versions,
        whatever the action was.
        """
        if (value_TB := rollout.extras.get("value")) is None:
            forward = unroll_forward(forward, rollout.recurrent)
            value_TB = forward(rollout.observations.rows(None))[1].view(rollout.reward.shape)
        else:
            forward = bootstrap_forward(forward, rollout.recurrent)
        value_SB = torch.cat([value_TB, forward(rollout.observations.last())[1].unsqueeze(0)])
        reward_TB, discount_TB, trace_TB = self.learning_signals(rollout)
        advantage_TB = generalised_advantages(
            reward_TB, value_SB, discount_TB, trace_TB, self._config.gae_lambda
        )
        action = rollout.action.flatten(0, 1)
        return Batch(
            observations=rollout.observations,
            rows=None,
            action=action,
            log_prob=self.distribution.log_prob(rollout.extras["policy"].flatten(0, 1), action),
            value=value_SB[:-1].flatten(),
            advantage=advantage_TB.flatten(),
            target=(advantage_TB + value_SB[:-1]).flatten(),
            valid=rollout.valid.flatten().float(),
            recurrent=rollout.recurrent,
        )
