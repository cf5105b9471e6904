"""The interface between algorithms and systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from veldt.algorithms.capabilities import ON_POLICY, REPLAY
from veldt.algorithms.groups import ParameterGroup, TargetNetwork
from veldt.algorithms.rollout import Observation, Rollout
from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.updates import Adam, UpdateRule
from veldt.networks.own import OwnModules
from veldt.networks.precision import Forward as Forward
from veldt.networks.precision import Network
from veldt.replay.settings import NStep

# Makes the part of a network that processes observations, in the form an algorithm needs; see `build_torso`.
BuildTorso = Callable[..., nn.Module]
# Makes a recurrent core for a number of features; see `networks.recurrent.RecurrentActorCritic`.
MakeCore = Callable[[int], nn.Module]


class Loss(NamedTuple):
    """The result of a loss computation: the loss to minimise, metrics to log and the rows' new raw priorities [N].

    A metric [] is logged as `train/NAME`, unless its name has a prefix (`tracking/metric_names.py`). Metrics and
    priorities have no gradient. `rows` [] is the number of rows in the mean, where some rows are masked. With
    `by_group`, each parameter group has a loss of its own, and `total` is for metrics only; see `Loss.of_groups`.
    """

    total: Tensor
    metrics: dict[str, Tensor]
    priority: Tensor | None = None
    rows: Tensor | None = None
    by_group: Mapping[str, Tensor] | None = None

    @classmethod
    def of_groups(
        cls,
        by_group: Mapping[str, Tensor],
        metrics: dict[str, Tensor] | None = None,
        priority: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Loss:
        """Returns a loss [] for each parameter group by its name. The gradient of each is taken with respect to its
        group's parameters alone, so an actor's loss may contain the critic without moving it.

        Metrics get each of them as `train/NAME_loss`; the learner logs their sum as `train/loss`.

        Raises:
            UsageError: there is no loss, or one is not a single number.

        Example: `Loss.of_groups({"actor": -q_N.mean(), "critic": error_N.square().mean()})`
        """
        if not by_group:
            raise UsageError("Loss.of_groups got no loss: give one for each group that moves in this update")
        for name, loss in by_group.items():
            if loss.ndim:
                raise UsageError(
                    f"the loss of the parameter group {name} has the shape {list(loss.shape)}: it must be a single "
                    "number, such as its mean"
                )
        parts = {name: loss.detach() for name, loss in by_group.items()}
        total = torch.stack(list(parts.values())).sum()
        named = {f"train/{name}_loss": part for name, part in parts.items()}
        return cls(total, {**named, **(metrics or {})}, priority, rows, by_group)


class Algorithm(ABC):
    """Everything a system needs to know about an algorithm, independent of where its experience comes from.

    `progress` is the fraction of the training budget that is done, in [0, 1); `steps` counts agent steps. Schedules are
    functions of these two, so a resumed run continues them. `capabilities` (`capabilities.CAPABILITIES`) decide which
    systems and which action spaces the algorithm fits.

    A subclass defines at least `network`, `act`, `best_action` and `loss` (or `losses`), and mostly derives from
    `PolicyGradient` or `ReplayAlgorithm`, which define the rest for their settings.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    name: str  # in messages; in a run the name under which the class is registered
    rule: UpdateRule = Adam()
    max_grad_norm: float = 0.0  # upper limit of the gradient's norm; 0: no limit
    # Agent steps of the whole run, for schedules of what `prepare_noise` does; 0: not known.
    run_steps: int = 0
    _env_slice: tuple[int, int] | None = None

    @abstractmethod
    def __init__(self, config: Any, action: ActionSpec) -> None:
        """`config` has the algorithm's own settings. Raises UsageError for an unsupported action space."""

    @property
    def groups(self) -> Sequence[ParameterGroup]:
        """The parameter groups. By default one has all parameters, with the rule `rule`."""
        return (ParameterGroup("all", self.rule),)

    @property
    def target_networks(self) -> Mapping[str, TargetNetwork]:
        """The target networks by name; by default none. They are copies that follow the parameters."""
        return {}

    @abstractmethod
    def horizon(self, num_envs: int) -> int:
        """Steps of each env between optimisation phases. Raises UsageError if sizes do not divide evenly."""

    @abstractmethod
    def update_rows(self, num_envs: int) -> int:
        """Rows in one update: the batch size of the network's forward pass when it learns."""

    @abstractmethod
    def network(self, build_torso: BuildTorso) -> Network:
        """Returns torso and heads: a module whose forward pass `act`, `targets` and `loss` get as `forward`.

        Args:
            build_torso: returns a new torso for the env's observations, a module with an attribute `features`, its
                number of outputs; its keyword arguments are `last_layer` and `activation` of
                `networks.build.build_torso`.
        """

    def own_network(self, own: OwnModules, build_torso: BuildTorso) -> Network:
        """Returns a network of the user's own actor, critic or model. Raises UsageError for parts that do not fit.

        An algorithm that takes them says in its documentation which outputs they need.
        """
        part, name = next(iter(own.names.items()))
        raise UsageError(
            f"--{part} is {name}, and {self.name} takes no such part: leave it out, or give a --network of your own"
        )

    def action_noise(self, network: nn.Module) -> int:
        """Number of uniform random numbers that one action needs; by default none."""
        return 0

    def prepare_noise(self, uniform: Tensor, steps: int | None) -> Tensor:
        """Transforms uniform noise [..., B, noise] of B envs into the form that `act` takes, once for many steps.

        By default it stays uniform. `steps` is the number of training steps done; None in evaluation.
        """
        return uniform

    @abstractmethod
    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the actions for N observations, and extras, tensors [N, ...] by name, {} for none.

        Actions are as `ActionSpec` stores them: int64 [N] (Discrete) or [N, D] (MultiDiscrete), float32 [N, D] in units
        in which -1 and 1 are the bounds (Box). On-policy algorithms get the extras in `Rollout.extras`, [T, B, ...]; a
        replay buffer does not store them.

        Args:
            noise: what `prepare_noise` made for these rows, [N, K].
        """

    @abstractmethod
    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        """Returns the action without exploration."""

    def value(self, forward: Forward, observation: Observation) -> Tensor:
        """Returns the estimated return from each of N observations, float32 [N], if the algorithm estimates any."""
        raise NotImplementedError

    def action_values(self, forward: Forward, observation: Observation) -> Tensor:
        """Returns Q of every action, float32 [N, A], for algorithms that estimate these."""
        raise NotImplementedError

    def policy(self, forward: Forward, observation: Observation) -> dict[str, Tensor]:
        """Returns the numbers that describe the distribution of actions by name, for stochastic policies.

        They are those of `functional.distributions.Distribution.described`.
        """
        raise NotImplementedError

    @abstractmethod
    def learning_rate(self, progress: float, batch: int) -> float:
        """The current learning rate, for updates or phases of `batch` samples.

        It holds for the parameter groups that have none of their own.
        """

    def set_env_slice(self, first: int, total: int) -> None:
        """Tells this copy that it acts only for envs `first` and following, out of `total` in the run."""
        self._env_slice = first, total

    def env_indices(self, width: int) -> range:
        """The indices in the run of the `width` envs that this copy acts for, for what differs between envs."""
        first = self._env_slice[0] if self._env_slice else 0
        return range(first, first + width)

    def scored_envs(self, num_envs: int) -> Collection[int]:
        """The envs whose episodes count for the mean return, where some envs explore much more than others."""
        return range(num_envs)

    def loss(self, forward: Forward, batch: Any, progress: float) -> Loss:
        """Returns the loss of one update on a batch from `minibatches` or `targets`."""
        raise NotImplementedError(f"{type(self).__name__} defines neither `loss` nor `losses`")

    def losses(self, forward: Forward, batch: Any, progress: float, due: Sequence[str]) -> Loss:
        """Returns the loss of one update; by default that of `loss`, for algorithms with an interval of 1 or one loss.

        Args:
            due: names of the parameter groups that move in this update. With `Loss.of_groups` each of them needs a
                loss; the losses of others may be left out, and are not used.
        """
        return self.loss(forward, batch, progress)


class OnPolicy(Algorithm):
    """Learns from each rollout once, right after it was sampled."""

    capabilities = frozenset({ON_POLICY})

    # γ of the running return by whose deviation the rewards of a rollout are divided before `minibatches` gets it
    # (`learning/normalisation.py`); None: rewards stay raw
    reward_statistics_gamma: float | None = None

    @abstractmethod
    def network(self, build_torso: BuildTorso, make_core: MakeCore | None = None) -> Network:
        """Returns torso and heads, with a recurrent core between them if there is one; see `RecurrentActorCritic`."""

    def update_rows(self, num_envs: int) -> int:
        return self.horizon(num_envs) * num_envs

    def minibatches(self, forward: Forward, rollout: Rollout, generator: torch.Generator) -> Iterator[Any]:
        """Yields the batches of one optimisation phase, one per update and at least one; by default the rollout.

        It runs without gradient, and goes on after each update: what follows the last `yield` sees the new parameters.

        Args:
            forward: the network's forward pass, for values and targets.
            rollout: T steps of B envs.
            generator: for random numbers, such as an order of minibatches or noise; its seed depends on the phase.
        """
        yield rollout


class OffPolicy(Algorithm):
    """Learns from transitions of any age, sampled from a replay buffer."""

    capabilities = frozenset({REPLAY})

    batch_size: int  # transitions per update
    intensity: float  # how often each transition is used, on average
    learning_starts: int  # steps that are sampled before the first update
    returns: NStep
    reward_range: tuple[float, float] | None = None  # range of one reward that the network can represent

    def update_rows(self, num_envs: int) -> int:
        return self.batch_size

    def steps_due(self, updates: int) -> int:
        """The number of agent steps after which `updates` updates are due."""
        return self.learning_starts + round(updates * self.batch_size / self.intensity)

    def annealing_steps(self, steps: int, updates: int) -> int:
        """Step count of a schedule that follows updates: `steps`, at most those after which `updates` are due."""
        return min(steps, self.steps_due(updates))

    def update_noise(self, network: nn.Module) -> int:
        """Number K of standard normal numbers that an update needs, one vector for all rows: `Transitions.noise`.

        By default none. Noisy layers use them.
        """
        return 0

    def row_noise(self, network: nn.Module) -> int:
        """Number K of standard normal numbers that each row of a batch needs: `Transitions.row_noise`, float32 [N, K].

        By default none. They are a function of the run's seed and the number of the update. An algorithm that needs
        noise for several purposes, such as the next action's and the present one's, asks for all and splits them.
        """
        return 0

    def targets(self, forward: Forward, target: Any, transitions: Transitions) -> Any:
        """Returns the batch for `loss`, with the targets of the loss; by default the transitions.

        It is called without gradient, as if it were decorated by `torch.no_grad()`.

        Args:
            forward: the network's forward pass.
            target: the forward passes of the target networks, `Targets`: `target["slow"](observation)`, or with a
                single target network `target(observation)`.
        """
        return transitions

    def act_with_values(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`act`, plus the network's output for the action taken and for the best one: "taken" and "best", [N, ...].

        Without them, as by default, all new steps get the same initial priority, 1.
        """
        return self.act(forward, observation, noise)

    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        """Raw priorities float32 [N] of new steps, computed by the actor (Ape-X, appendix F).

        By default the absolute error, for algorithms that regress on values.

        Args:
            taken_N, best_N: what `act_with_values` returned for the step's observation, and for the observation at the
                end of its n-step return.
            reward_N, discount_N: as in `Transitions`.
        """
        return (reward_N + discount_N * best_N - taken_N).abs()

    def exploration(self, steps: int) -> dict[str, float]:
        """Metrics about exploration to log, after `steps` of training, with names as in `Loss`."""
        return {}
