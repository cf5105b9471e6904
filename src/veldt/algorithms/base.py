"""The interface between algorithms and systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from veldt.algorithms.rollout import Batch, Observation, Rollout
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.functional.updates import UpdateRule
from veldt.networks.precision import Network
from veldt.replay.n_step import NStep

# A network's forward pass, possibly compiled. What it returns is between the network and its algorithm.
Forward = Callable[..., Any]
# Makes the part of a network that stands on observations, in the form an algorithm wants it; see `build_torso`.
BuildTorso = Callable[..., nn.Module]


class Loss(NamedTuple):
    """Of one update: what is minimised; metrics to log and the rows' new priorities (raw, [N]), without gradient.

    `rows` [] are those that it is the mean of, where not all that a batch has may count.
    """

    total: Tensor
    metrics: dict[str, Tensor]
    priority: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True)
class TargetUpdate:
    """How a target network follows: every `every` updates it moves by the fraction `rate` (1: a copy)."""

    every: int
    rate: float


class Algorithm(ABC):
    """Everything a system needs to know of what is learned, however its experience comes.

    `progress` is the fraction of the training budget that is done, in [0, 1), and `steps` counts agent steps: schedules
    are functions of them, so that they cannot restart when a run does.
    """

    name: str
    rule: UpdateRule
    max_grad_norm: float  # largest norm of the gradient; 0: no limit
    target: TargetUpdate | None = None
    _place: tuple[int, int] | None = None

    @abstractmethod
    def __init__(self, config: Any, action: ActionSpec) -> None:
        """`config` are the algorithm's own settings. UsageError for actions that it cannot choose among."""

    @abstractmethod
    def horizon(self, num_envs: int) -> int:
        """Steps each env makes between optimisation phases. UsageError where sizes do not divide."""

    @abstractmethod
    def update_rows(self, num_envs: int) -> int:
        """Rows of one update: what the network is given at once when it learns."""

    @abstractmethod
    def network(self, build_torso: BuildTorso) -> Network:
        """Torso and heads."""

    @abstractmethod
    def action_noise(self, network: nn.Module) -> int:
        """Uniform numbers an action takes."""

    @abstractmethod
    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """Uniform noise [..., B, noise] of B envs in the form `act` takes it, once for many steps.

        `steps` are done in training; None when a trained policy is evaluated.
        """

    @abstractmethod
    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [N, ...] for N observations, and what to remember with them."""

    @abstractmethod
    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        """The action without exploration."""

    @abstractmethod
    def learning_rate(self, progress: float, batch: int) -> float:
        """The step size now, for updates or phases of `batch_size` samples."""

    def set_env_slice(self, first: int, total: int) -> None:
        """Says that this copy acts for envs `first` and on, of `total` in the run, and not for all of them."""
        self._place = first, total

    def scored_envs(self, num_envs: int) -> range:
        """The envs whose games show what the policy can do, where some explore much more than others."""
        return range(num_envs)

    def lr_multiplier(self, parameter: str) -> float:
        """What the step size of the parameter of this name is multiplied by."""
        return 1.0

    @abstractmethod
    def loss(self, forward: Forward, batch: Any, progress: float) -> Loss:
        """The loss of one update on what `minibatches` or `targets` made."""


class OnPolicy(Algorithm):
    """Learns from the rollout that has just been sampled, and then forgets it.

    `recurrent` is whether it takes rows in their order, and so can learn with a network that has a memory.
    """

    recurrent: bool = False

    @abstractmethod
    def network(self, build_torso: BuildTorso, lstm: int = 0) -> Network:
        """Torso and heads, with `lstm` units of an LSTM between them (0: none)."""

    @abstractmethod
    def minibatches(
        self, forward: Forward, rollout: Rollout, generator: torch.Generator
    ) -> Iterator[Batch | Rollout]:
        """One optimisation phase: a batch for each update, in order."""


class OffPolicy(Algorithm):
    """Learns from transitions of any age, drawn from a replay buffer."""

    batch_size: int  # transitions of an update
    intensity: float  # times a transition is used, on average
    learning_starts: int  # steps that are sampled before the first update
    returns: NStep
    reward_range: tuple[float, float] | None = None  # what one reward can be for the network to express it

    def steps_due(self, updates: int) -> int:
        """The agent steps after which so many updates are due."""
        return self.learning_starts + round(updates * self.batch_size / self.intensity)

    def annealing_steps(self, steps: int, updates: int) -> int:
        """What exploration falls by where it falls by updates: the steps that these are due after, of those done."""
        return min(steps, self.steps_due(updates))

    @abstractmethod
    def update_noise(self, network: nn.Module) -> int:
        """Standard normal numbers that an update takes."""

    @abstractmethod
    def targets(self, forward: Forward, target: Forward, transitions: Transitions) -> QLearningBatch:
        """What the loss regresses on, without gradient; `target` is the target network's forward pass."""

    @abstractmethod
    def act_with_values(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`act`, and what the network says of the actions taken and of the best ones: "taken" and "best", [N, ...]."""

    @abstractmethod
    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        """Raw priorities float32 [N] of steps that nobody has learned from yet, by whoever acted (Ape-X, appendix F).

        Args:
            taken_N, best_N: what `act_with_values` said of the step's observation, and of that at the end of its return.
            reward_N, discount_N: as in `Transitions`.
        """

    def exploration(self, steps: int) -> dict[str, float]:
        """Figures about exploration to log, after `steps` of training."""
        return {}
