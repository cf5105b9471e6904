"""Base of DQN and Categorical DQN: ε-greedy actions, and the network that computes Q."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from veldt.algorithms.base import BuildTorso, Forward
from veldt.algorithms.capabilities import DISCRETE, REPLAY
from veldt.algorithms.off_policy import OffPolicyConfig, ReplayAlgorithm
from veldt.algorithms.rollout import Observation
from veldt.algorithms.schedule_settings import make_schedule
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.q_learning import annealed, ladder
from veldt.functional.updates import AdaGrad, Adam, RMSProp, UpdateRule
from veldt.networks.own import OwnModules
from veldt.networks.own_heads import OwnQ
from veldt.networks.precision import Network
from veldt.networks.q_network import QNetwork
from veldt.setting_metadata import Range, Unit
from veldt.setting_text import flag

_LADDER_POWER = 7.0  # Horgan et al. 2018, section 4.1
# The settings of each update rule, and of each way to explore.
_OF_RULE = {
    "adam": ("adam_epsilon", "scale_adam_epsilon"),
    "rmsprop": ("rmsprop_decay", "rmsprop_epsilon"),
    "adagrad": ("adagrad_initial",),
}
_OF_LADDER = ("ladder_epsilon", "ladder_rungs")
_OF_ANNEALING = ("epsilon_start", "epsilon_end", "epsilon_steps", "exploration_fraction")


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(OffPolicyConfig):
    """Settings of DQN and Categorical DQN."""

    is_family = True

    scale_learning_rate: Literal["paper", "none"] = "paper"
    """How the learning rate scales with the batch; --learning-rate is for a batch of 32 (Stooke & Abbeel, A.3)."""
    optimiser: Literal["adam", "rmsprop", "adagrad"] = "adam"
    """The update rule."""
    adam_epsilon: Annotated[float, Unit("gradient")] = 1e-8
    """ε of Adam."""
    scale_adam_epsilon: bool = False
    """Divide Adam's ε by the batch size (Stooke & Abbeel, A.3)."""
    rmsprop_decay: Annotated[float, Unit("per update")] = 0.95
    """Decay of RMSProp's mean square."""
    rmsprop_epsilon: Annotated[float, Unit("gradient²")] = 1e-6
    """ε of RMSProp, inside the square root."""
    adagrad_initial: Annotated[float, Unit("gradient²")] = 0.0
    """Initial value of AdaGrad's sum of squared gradients; a larger one makes the first steps smaller."""
    double: bool = False
    """Double Q-learning: the online network selects the next action, the target network evaluates it."""
    dueling: bool = False
    """Dueling network: separate streams for the state value and the advantages."""
    noisy: bool = False
    """Explore with noisy layers (Fortunato et al. 2018); ε in training is then 0, as in Rainbow."""
    noisy_sigma: Annotated[float, Unit("σ₀")] = 0.5
    """Initial σ₀ of the noisy layers."""
    exploration: Literal["annealed", "ladder"] = "annealed"
    """ε falls from --epsilon-start to --epsilon-end for all envs, or each env has its own fixed ε (ladder, Ape-X)."""
    ladder_epsilon: Annotated[float, Unit("probability")] = 0.4
    """ε of the ladder's first env; the last env has this to the power of 8."""
    ladder_rungs: Annotated[int, Unit("values")] = 0
    """Different values of ε on the ladder, which envs take in turn; 0: one for each env (Horgan et al. 2018, appendix D
    compares with 6)."""
    epsilon: Annotated[float | str, Unit("probability"), Range(0.0, 1.0)] = ""
    """ε as a number or a schedule over the run's steps, such as piecewise:0=1,0.1=0.1,1=0.01 or module:function, in the
    place of --epsilon-start, --epsilon-end and --epsilon-steps; empty: by these."""
    epsilon_start: Annotated[float, Unit("probability")] = 1.0
    """Initial ε."""
    epsilon_end: Annotated[float, Unit("probability")] = 0.1
    """Final ε, after --epsilon-steps."""
    epsilon_steps: Annotated[int, Unit("steps")] = 1_000_000
    """Agent steps over which ε falls, from the start of learning (as in dqn_zoo and Dopamine); 0: a fraction of the
    run."""
    exploration_fraction: Annotated[float, Unit("of the run")] = 0.1
    """Fraction of the run's steps over which ε falls, if --epsilon-steps is 0."""
    evaluation_epsilon: Annotated[float, Unit("probability")] = 0.05
    """ε in evaluation; 0 means no random actions."""
    # (batch size, learning rate relative to batch 32): linear between points in logarithms, constant outside.
    _SCALING: ClassVar[Sequence[tuple[int, float]]] = ((32, 1.0),)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epsilon_start", "epsilon_end", "evaluation_epsilon", "ladder_epsilon"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be in [0, 1]")
        if self.ladder_rungs < 0:
            raise UsageError(
                f"--ladder-rungs is {self.ladder_rungs}: it must be 0 (one for each env) or more"
            )
        if self.epsilon_steps < 0:
            raise UsageError(f"--epsilon-steps is {self.epsilon_steps}: it must be 0 or more")
        if not 0 < self.exploration_fraction <= 1:
            raise UsageError(
                f"--exploration-fraction is {self.exploration_fraction}: it must be more than 0, and at most 1"
            )
        for name in ("adam_epsilon", "rmsprop_epsilon", "noisy_sigma"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be more than 0")
        if self.adagrad_initial < 0:
            raise UsageError(f"--adagrad-initial is {self.adagrad_initial:g}: it must be 0 or more")
        if not 0 <= self.rmsprop_decay < 1:
            raise UsageError(f"--rmsprop-decay is {self.rmsprop_decay}: it must be in [0, 1)")

    @property
    def learning_rate_scale(self) -> float:
        return _interpolate(self._SCALING, self.batch_size) if self.scale_learning_rate == "paper" else 1.0

    def derived(self, num_envs: int, in_phases: bool) -> list[tuple[str, str, str, str]]:
        rows = super().derived(num_envs, in_phases)
        if self.optimiser == "adam":
            rows.append(("Adam's ε", f"{self._epsilon:g}", "gradient", "adam_epsilon, for this batch"))
        return rows

    @property
    def _epsilon(self) -> float:
        return self.adam_epsilon / (self.batch_size if self.scale_adam_epsilon else 1)

    def rule(self) -> UpdateRule:
        """The update rule that these settings describe."""
        if self.optimiser == "rmsprop":
            return RMSProp(self.rmsprop_decay, self.rmsprop_epsilon, epsilon_inside=True)
        if self.optimiser == "adagrad":
            return AdaGrad(initial=self.adagrad_initial)
        return Adam(epsilon=self._epsilon)

    def unread(self) -> dict[str, str]:
        unread: dict[str, str] = {}
        if len(self._SCALING) == 1:
            unread["scale_learning_rate"] = (
                "the paper does not scale this algorithm's learning rate with the batch"
            )
        for rule, names in _OF_RULE.items():
            if rule != self.optimiser:
                unread |= dict.fromkeys(names, f"--optimiser is {self.optimiser}")
        return unread | self._unread_by_exploration()

    def _unread_by_exploration(self) -> dict[str, str]:
        if self.noisy:
            names = ("exploration", "epsilon", *_OF_LADDER, *_OF_ANNEALING)
            return dict.fromkeys(names, "with --noisy the layers' noise explores")
        unread = {"noisy_sigma": "there are no noisy layers without --noisy"}
        if self.exploration == "ladder":
            why = "--exploration is ladder, where each env has its own ε"
            return unread | dict.fromkeys(("epsilon", *_OF_ANNEALING), why)
        why = "--exploration is annealed, where all envs have the same ε"
        unread |= dict.fromkeys(_OF_LADDER, why)
        if self.epsilon != "":
            unread |= dict.fromkeys(_OF_ANNEALING, f"--epsilon is {self.epsilon}")
        elif self.epsilon_steps:
            unread["exploration_fraction"] = f"--epsilon-steps is {self.epsilon_steps:,}; 0 uses the fraction"
        return unread

    def annealed_settings(self) -> list[str]:
        falls = self.epsilon_start != self.epsilon_end and "exploration_fraction" not in self.unread()
        return [*super().annealed_settings(), *(["exploration_fraction"] if falls else [])]


class QLearning(ReplayAlgorithm):
    """See `OffPolicy`. Takes the discrete action with the largest Q, or, with probability ε, a random one."""

    capabilities = frozenset({REPLAY, DISCRETE})
    _config: QLearningConfig
    atoms = 1  # outputs of veldt's network for each action
    choice_noise = 2  # C, uniform random numbers that one action of `choose` needs

    def __init__(self, config: QLearningConfig, action: ActionSpec) -> None:
        super().__init__(config, config.rule())
        self._action, self.num_actions = action, action.sizes[0]
        self._epsilon_schedule = None if config.epsilon == "" else make_schedule(config, "epsilon")

    def network(self, build_torso: BuildTorso) -> Network:
        config = self._config
        return QNetwork(
            lambda: build_torso(last_layer=False, activation="relu"),
            self.num_actions,
            atoms=self.atoms,
            dueling=config.dueling,
            noisy=config.noisy,
            sigma=config.noisy_sigma,
        )

    def own_network(self, own: OwnModules, build_torso: BuildTorso) -> Network:
        """See `OwnQ`: the critic, or the model, is the whole network."""
        own.refuse("actor", self.name, "acts by its values alone")
        if self._config.noisy:
            part, name = next(iter(own.names.items()))
            raise UsageError(
                f"--noisy is on, and --{part} is {name}, in which it makes no noisy layers: take --no-noisy"
            )
        return OwnQ(own, next(iter(own.modules)), self._action, self.atoms)

    @abstractmethod
    def values(self, output: Any) -> Tensor:
        """Returns Q of every action, float32 [N, A], from the network's output."""

    @abstractmethod
    def bellman_target(self, transitions: Transitions, next_output: Any, selector_NA: Tensor) -> Tensor:
        """Returns the target, [N, ...], from the target network's output for the next observation.

        The next action is the one with the largest of `selector_NA`, float32 [N, A].
        """

    @torch.no_grad()
    def targets(self, forward: Forward, target: Forward, transitions: Transitions) -> QLearningBatch:
        after, noise = transitions.next_observation, transitions.noise
        next_output = chooser = target(after, *shared_noise(noise[2:]))
        if self._config.double:
            chooser = forward(after, *shared_noise(noise[1:2]))
        target_N = self.bellman_target(transitions, next_output, self.values(chooser))
        return QLearningBatch.of(transitions, target_N)

    def action_noise(self, network: nn.Module) -> int:
        return self.choice_noise + self._noise_width(network)

    def update_noise(self, network: nn.Module) -> int:
        return self._noise_width(network)

    def _noise_width(self, network: nn.Module) -> int:
        """How many noise values the network's noisy layers need; 0 for a network that has no `noise_width`."""
        width = int(getattr(network, "noise_width", 0))
        if self._config.noisy and not width:  # ε is 0 then: nothing would explore
            raise UsageError(
                f"--noisy is on, and the network of {type(self).__name__} has no noisy layers (`noise_width`): take "
                "--no-noisy"
            )
        return width

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """[..., C + K]: what `choose` gets, and normal noise for noisy layers."""
        layers = torch.special.ndtri(uniform[..., self.choice_noise :])
        if steps is None:
            layers = torch.zeros_like(layers)  # zero noise: the layers use their means
        return torch.cat([self.prepare_choice(uniform[..., : self.choice_noise], steps), layers], -1)

    def prepare_choice(self, uniform: Tensor, steps: int | None) -> Tensor:
        """Transforms uniform noise [..., B, C] into the form that `choose` takes, of the same shape.

        By default ε-greedy: the first number is the random action of envs that explore, else -1. `steps` is the number
        of training steps done; None in evaluation.
        """
        explore, choice = uniform[..., 0], uniform[..., 1]
        any_action = (choice * self.num_actions).floor().clamp(max=self.num_actions - 1)
        epsilon_B = self._checked_epsilon(uniform.shape[-2], steps).to(uniform)
        given = torch.where(explore < epsilon_B, any_action, -torch.ones_like(any_action))
        return torch.stack([given, choice], -1)

    def choose(self, values_NA: Tensor, choice_NC: Tensor) -> Tensor:
        """Returns the actions that are taken, int64 [N], from Q and the prepared noise; by default ε-greedy."""
        given_N = choice_NC[..., 0].long()
        return torch.where(given_N >= 0, given_N, values_NA.argmax(-1))

    @abstractmethod
    def gather_action(self, output: Any, action_N: Tensor) -> Tensor:
        """Returns the part of the network's output that belongs to each row's action, [N, ...]."""

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        action_N, _, _ = self._explored(forward, observation, noise)
        return action_N, {}

    def act_with_values(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        action_N, values_NA, output = self._explored(forward, observation, noise)
        return action_N, {
            "taken": self.gather_action(output, action_N),
            "best": self.gather_action(output, values_NA.argmax(-1)),
        }

    def _explored(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, Tensor, Any]:
        """Returns the action taken, Q of every action, and the network's output."""
        output = forward(observation, *shared_noise(noise[..., self.choice_noise :]))
        values_NA = self.values(output)
        return self.choose(values_NA, noise[..., : self.choice_noise]), values_NA, output

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        return self.values(forward(observation)).argmax(-1)

    def value(self, forward: Forward, observation: Observation) -> Tensor:
        return self.action_values(forward, observation).amax(-1)

    def action_values(self, forward: Forward, observation: Observation) -> Tensor:
        return self.values(forward(observation))

    def scored_envs(self, num_envs: int) -> Sequence[int]:
        """Of a ladder, the half of the rungs that explores least."""
        if self._config.exploration != "ladder" or self._config.noisy:
            return range(num_envs)
        rungs = min(self._config.ladder_rungs or num_envs, num_envs)
        return [b for b in range(num_envs) if b % rungs >= rungs // 2]

    def exploration(self, steps: int) -> dict[str, float]:
        return (
            {"rollout/epsilon": float(self._checked_epsilon(1, steps)[0])}
            if self._config.exploration == "annealed"
            else {}
        )

    def epsilon(self, width: int, steps: int | None) -> Tensor:
        """Returns ε of each of the `width` envs that this copy acts for (`env_indices`), float32 [width].

        `steps` is the number of training steps done, of the run's `run_steps`; None in evaluation.
        """
        if steps is None:
            return torch.full((width,), self._config.evaluation_epsilon)
        config = self._config
        if config.noisy:
            return torch.zeros(width)
        if config.exploration == "ladder":
            total = self._env_slice[1] if self._env_slice else width
            rungs = ladder(config.ladder_epsilon, _LADDER_POWER, config.ladder_rungs or total)
            return torch.from_numpy(rungs[np.array(self.env_indices(width)) % len(rungs)])
        if self._epsilon_schedule is not None:
            progress = min(1.0, steps / self.run_steps) if self.run_steps else 0.0
            return torch.full((width,), self._epsilon_schedule(progress))
        learning = max(0, steps - config.learning_starts)
        falls_for = config.epsilon_steps or max(1, round(config.exploration_fraction * self.run_steps))
        epsilon = annealed(config.epsilon_start, config.epsilon_end, falls_for, learning)
        return torch.full((width,), epsilon)

    def _checked_epsilon(self, width: int, steps: int | None) -> Tensor:
        """`epsilon`, which may be a subclass's own."""
        epsilon_B = self.epsilon(width, steps)
        if (
            not isinstance(epsilon_B, Tensor)
            or epsilon_B.shape != (width,)
            or not bool(((epsilon_B >= 0) & (epsilon_B <= 1)).all())
        ):
            raise UsageError(
                f"{self.name}: {type(self).__name__}.epsilon returned {epsilon_B!r} for {width} envs: it must return a "
                f"tensor [{width}] of probabilities, from 0 to 1"
            )
        return epsilon_B


def shared_noise(noise: Tensor) -> tuple[Tensor, ...]:
    """Extra inputs of a network's forward pass: noise [1, K] for all rows or [N, K], if it has noisy layers (K > 0)."""
    return (noise,) if noise.shape[-1] else ()


def _interpolate(points: Sequence[tuple[int, float]], batch: int) -> float:
    if batch <= points[0][0]:
        return points[0][1]
    for (low, first), (high, last) in itertools.pairwise(points):
        if batch <= high:
            share = math.log(batch / low) / math.log(high / low)
            return first * (last / first) ** share
    return points[-1][1]
