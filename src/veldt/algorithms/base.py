"""The interface between algorithms and systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from veldt.algorithms.capabilities import ON_POLICY, REPLAY
from veldt.algorithms.rollout import Batch, Observation, Rollout
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.envs.spec import ActionSpec
from veldt.functional.updates import UpdateRule
from veldt.networks.precision import Network
from veldt.replay.n_step import NStep

# A network's forward pass, possibly compiled. What it returns is agreed between the network and its algorithm.
Forward = Callable[..., Any]
# Makes the part of a network that processes observations, in the form an algorithm needs; see `build_torso`.
BuildTorso = Callable[..., nn.Module]


class Loss(NamedTuple):
    """The result of a loss computation: the loss to minimise, metrics to log and the rows' new raw priorities [N].

    Metrics and priorities have no gradient. `rows` [] is the number of rows in the mean, where some rows are masked.
    """

    total: Tensor
    metrics: dict[str, Tensor]
    priority: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True)
class TargetUpdate:
    """Target network updates: after every `every` updates it moves by the fraction `rate` (1: a copy)."""

    every: int
    rate: float


class Algorithm(ABC):
    """Everything a system needs to know about an algorithm, independent of where its experience comes from.

    `progress` is the fraction of the training budget that is done, in [0, 1); `steps` counts agent steps. Schedules are
    functions of these two, so a resumed run continues them. `capabilities` (`capabilities.CAPABILITIES`) decide which
    systems and which action spaces the algorithm fits.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    name: str
    rule: UpdateRule
    max_grad_norm: float  # upper limit of the gradient's norm; 0: no limit
    target: TargetUpdate | None = None
    _place: tuple[int, int] | None = None

    @abstractmethod
    def __init__(self, config: Any, action: ActionSpec) -> None:
        """`config` has the algorithm's own settings. Raises UsageError for an unsupported action space."""

    @abstractmethod
    def horizon(self, num_envs: int) -> int:
        """Steps of each env between optimisation phases. Raises UsageError if sizes do not divide evenly."""

    @abstractmethod
    def update_rows(self, num_envs: int) -> int:
        """Rows in one update: the batch size of the network's forward pass when it learns."""

    @abstractmethod
    def network(self, build_torso: BuildTorso) -> Network:
        """Returns torso and heads."""

    @abstractmethod
    def action_noise(self, network: nn.Module) -> int:
        """Number of uniform random numbers that one action needs."""

    @abstractmethod
    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """Transforms uniform noise [..., B, noise] of B envs into the form that `act` takes, once for many steps.

        `steps` is the number of training steps done; None in evaluation.
        """

    @abstractmethod
    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns actions [N, ...] for N observations, and the extras to store with them."""

    @abstractmethod
    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        """Returns the action without exploration."""

    @abstractmethod
    def learning_rate(self, progress: float, batch: int) -> float:
        """The current learning rate, for updates or phases of `batch` samples."""

    def set_env_slice(self, first: int, total: int) -> None:
        """Tells this copy that it acts only for envs `first` and following, out of `total` in the run."""
        self._place = first, total

    def scored_envs(self, num_envs: int) -> range:
        """The envs whose episodes count for the mean return, where some envs explore much more than others."""
        """Factor on the learning rate for the parameter with this name."""
        return range(num_envs)

    def lr_multiplier(self, parameter: str) -> float:
        """What the step size of the parameter of this name is multiplied by."""
        return 1.0

    @abstractmethod
    def loss(self, forward: Forward, batch: Any, progress: float) -> Loss:
        """Returns the loss of one update on a batch from `minibatches` or `targets`."""


class OnPolicy(Algorithm):
    """Learns from each rollout once, right after it was sampled."""

    capabilities = frozenset({ON_POLICY})

    @abstractmethod
    def network(self, build_torso: BuildTorso, lstm: int = 0) -> Network:
        """Returns torso and heads, with an LSTM of `lstm` units between them (0: none)."""

    @abstractmethod
    def minibatches(
        self, forward: Forward, rollout: Rollout, generator: torch.Generator
    ) -> Iterator[Batch | Rollout]:
        """Yields the batches of one optimisation phase, one per update, in order."""


class OffPolicy(Algorithm):
    """Learns from transitions of any age, sampled from a replay buffer."""

    capabilities = frozenset({REPLAY})

    batch_size: int  # transitions per update
    intensity: float  # how often each transition is used, on average
    learning_starts: int  # steps that are sampled before the first update
    returns: NStep
    reward_range: tuple[float, float] | None = None  # range of one reward that the network can represent

    def steps_due(self, updates: int) -> int:
        """The number of agent steps after which `updates` updates are due."""
        return self.learning_starts + round(updates * self.batch_size / self.intensity)

    def annealing_steps(self, steps: int, updates: int) -> int:
        """Step count of a schedule that follows updates: `steps`, at most those after which `updates` are due."""
        return min(steps, self.steps_due(updates))

    @abstractmethod
    def update_noise(self, network: nn.Module) -> int:
        """Number of standard normal numbers that an update needs."""

    @abstractmethod
    def targets(self, forward: Forward, target: Forward, transitions: Transitions) -> QLearningBatch:
        """Returns the targets of the loss, without gradient; `target` is the target network's forward pass."""

    @abstractmethod
    def act_with_values(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`act`, plus the network's output for the action taken and for the best one: "taken" and "best", [N, ...]."""

    @abstractmethod
    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        """Raw priorities float32 [N] of new steps, computed by the actor (Ape-X, appendix F).

        Args:
            taken_N, best_N: what `act_with_values` returned for the step's observation, and for the observation at the
                end of its n-step return.
            reward_N, discount_N: as in `Transitions`.
        """

    def exploration(self, steps: int) -> dict[str, float]:
        """Metrics about exploration to log, after `steps` of training."""
        return {}
