"""The actor: acts in its own envs with its own copy of the policy, a few updates behind the learner's.

weights ==> actor ==slots==> replay shard (Horgan et al. 2018, algorithm 1), or learner (Espeholt et al. 2018, figure 1)
"""

from __future__ import annotations

import dataclasses
import functools
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from veldt.algorithms.base import Algorithm, Forward, OffPolicy
from veldt.config.train_config import TrainConfig
from veldt.envs.arrangement import Arrangement, make_vector_envs
from veldt.envs.seeding import ACTOR, derive_seed
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Arrays, SlotOut, Slots
from veldt.exchange.weights import Weights
from veldt.learning.checked_results import check_taken_and_best, checked_first_priorities
from veldt.learning.normalisation import RunningReturns, reward_gamma_of
from veldt.networks.actor_critic import ActorCritic
from veldt.networks.own import OwnParts
from veldt.networks.precision import Network
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control
from veldt.sampling.episodes import EpisodeTracker
from veldt.sampling.sampler import Act, ActingPolicy, InferencePlace, Sampler
from veldt.sampling.unrolls import RUNNING_RETURN
from veldt.systems.roles.messages import ActorMetrics, FinishedEpisodes
from veldt.systems.roles.pulled_network import PulledNetwork
from veldt.systems.roles.scale_notes import ScaleWarning
from veldt.tracking.stage_clock import StageClock

_WAIT_S = 0.02  # seconds between checks whether acting may continue
_SEND_S = 1.0  # seconds between messages with time spent per stage


@dataclass(frozen=True)
class ActorPlan:
    """Actor `number` owns envs `first` to `first + width` of the run, and hands over slots of `steps` rows.

    `ring` is the index of its ring at the consumer. `incarnations` counts its process starts before the run was
    resumed: every incarnation seeds other episodes. With `anneals_by_updates`, exploration is annealed by the updates
    of the weights that it has, not by agent steps.
    """

    config: TrainConfig
    source: EnvSource
    spec: EnvSpec
    network: OwnParts
    number: int
    ring: int
    first: int
    width: int
    steps: int
    actor_sync_interval: int  # steps of this actor between pulls of newer weights
    incarnations: int = 0
    anneals_by_updates: bool = False


def run_actor(
    control: Control, plan: ActorPlan, weights: Weights, slots: Slots, rate_limiter: RateLimiter
) -> None:
    """Entry point of the role: acts until it is asked to stop."""
    torch.set_num_threads(1)
    actor = _Actor(control, plan, weights, slots.producer(plan.ring), rate_limiter)
    try:
        while not control.stopping:
            control.heartbeat()
            if rate_limiter.may_act():
                actor.act()
            else:
                actor.wait_for_learner()
        actor.send_metrics()
    finally:
        actor.close()


class _Actor:
    def __init__(
        self, control: Control, plan: ActorPlan, weights: Weights, out: SlotOut, rate_limiter: RateLimiter
    ) -> None:
        self._control, self._plan, self._out, self._rate_limiter = control, plan, out, rate_limiter
        config, spec = plan.config, plan.spec
        starts = plan.incarnations + control.restart_count
        algorithm = config.make_algorithm(spec.action)
        algorithm.set_env_slice(plan.first, config.envs.num_envs)
        self._algorithm = algorithm
        self._scale_warning = ScaleWarning(
            config, algorithm, plan.number == 0 and starts == 0, lambda *note: control.send(Note(*note))
        )
        self._extras = _extras_for(algorithm, plan.width)
        self._policy = PulledNetwork(config, spec, plan.network, weights)
        self._seed = derive_seed(config.run.seed, ACTOR, plan.number, starts)
        envs = dataclasses.replace(config.envs, num_envs=plan.width, alternate="off")
        settings = StepperSettings(plan.source, self._seed, envs, config.atari, plan.first)
        arrangement = Arrangement("in-process", 0, 1, (), "an actor's own")
        self._envs = make_vector_envs(settings, spec, plan.steps, arrangement, stacks=True)
        self._slot = self._envs.trajectory
        self._episodes = EpisodeTracker(plan.width, self._envs.start())
        self._clock, self._reset_steps, self._sent_at = StageClock(), 0, time.monotonic()
        network = self._policy.network
        self._sampler = Sampler(
            self._envs,
            ActingPolicy.of(algorithm, network, self._extras.forward(network), self._extras.act),
            InferencePlace(torch.device("cpu")),
            self._seed,
            self._clock,
            heartbeat=control.heartbeat,
        )
        self._since_pull = plan.actor_sync_interval

    def act(self) -> None:
        """Fills one slot: acts, adds the actor's extras (such as first priorities), and hands the slot over."""
        if not self._has_weights():
            self.wait_for_learner()
            return
        slot = self._slot
        self._sampler.sample(self._annealing_steps())
        self._scale_warning.look_at(slot)
        with self._clock("infer"):
            extras = self._extras.of(self._sampler)
        arrays = self._free_slot()
        if arrays is None:
            return
        with self._clock("replay"):
            slot.copy_to(arrays)
            for name, array in extras.items():
                np.copyto(arrays[name], array)
            self._out.commit()
        steps = int(slot.valid.sum())
        self._rate_limiter.steps_A[self._plan.number] += steps
        self._since_pull += steps
        self._reset_steps += slot.valid.size - steps
        self._send_episodes()
        self._send_periodically()
        self._sampler.start_next_rollout()

    def _annealing_steps(self) -> int:
        steps = self._rate_limiter.steps
        if self._plan.anneals_by_updates and isinstance(self._algorithm, OffPolicy):
            return self._algorithm.annealing_steps(steps, self._policy.version)
        return steps

    def wait_for_learner(self) -> None:
        """Waits a moment so that learning catches up."""
        with self._clock("wait"):
            self._control.sleep(_WAIT_S)
        self._send_periodically()

    def close(self) -> None:
        self._envs.close()

    def _free_slot(self) -> Arrays | None:
        """Waits for a free slot and returns its arrays; None when the role is asked to stop."""
        with self._clock("wait"):
            while not self._control.stopping:
                self._control.heartbeat()
                arrays = self._out.slot(0.25)
                if arrays is not None:
                    return arrays
        return None

    def _has_weights(self) -> bool:
        """Pulls newer weights when a pull is due; False while no weights have been published at all."""
        if self._policy.version >= 0 and self._since_pull < self._plan.actor_sync_interval:
            return True
        self._since_pull = 0
        has_any = self._policy.pull_if_newer()
        self._sampler.version = self._policy.version
        return has_any

    def send_metrics(self) -> None:
        """Sends the time spent per stage, and what happened to envs."""
        self._sent_at = time.monotonic()
        for text in self._envs.notes():
            self._control.send(Note(text, "restart"))
        restarts = int(self._slot.restarts.sum())
        self._control.send(
            ActorMetrics(
                restart_count=self._control.restart_count,
                reset_steps=self._reset_steps,
                env_restarts=restarts,
                seconds=dict(self._clock.seconds),
            )
        )

    def _send_periodically(self) -> None:
        if time.monotonic() - self._sent_at > _SEND_S:
            self.send_metrics()

    def _send_episodes(self) -> None:
        if episodes := self._episodes.add(self._slot):
            self._control.send(FinishedEpisodes.of_role(episodes, self._seed, self._plan.first))


class _Extras(Protocol):
    """What an actor sends besides its steps: initial priorities, or the policy's parameters."""

    @property
    def act(self) -> Act:
        """The algorithm's function that chooses actions and returns the values needed here."""

    def forward(self, network: Network) -> Forward:
        """Returns the part of the network's forward pass that is needed."""

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        """Returns arrays by name, for the trajectory buffer that the sampler has just filled."""


def _extras_for(algorithm: Algorithm, width: int) -> _Extras:
    """Returns the extras that a learner with this algorithm needs of an actor with `width` envs."""
    if isinstance(algorithm, OffPolicy):
        return _FirstPriorities(algorithm)
    return _BehaviourPolicy(algorithm, width)


class _FirstPriorities:
    """ "priority" float64 [T, B]: each step's initial priority by the actor's network; 0 for rows without a return.
    "is_first" bool []: nothing was sent before by this process of the actor, so that the slot continues no other."""

    def __init__(self, algorithm: OffPolicy) -> None:
        self._algorithm = algorithm

    @property
    def act(self) -> Act:
        return self._algorithm.act_with_values

    def forward(self, network: Network) -> Forward:
        return network

    @torch.no_grad()
    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        is_first = np.array(sampler.phase == 1)
        return {"priority": self._priorities(sampler), "is_first": is_first}

    def _priorities(self, sampler: Sampler) -> np.ndarray:
        from veldt.replay.returns import slot_returns  # here, because it loads numba

        slot = sampler.trajectory
        returns = slot_returns(slot, self._algorithm.returns)
        outputs = sampler.actor_outputs()
        priority_TB = np.zeros((slot.steps, slot.width))
        if not outputs:  # the algorithm computes no initial priorities
            priority_TB.reshape(-1)[returns.row_N] = 1.0
            return priority_TB
        check_taken_and_best(outputs, self._algorithm)
        priority_N = self._algorithm.first_priorities(
            outputs["taken"][returns.row_N],
            torch.from_numpy(returns.reward_N),
            torch.from_numpy(returns.discount_N),
            outputs["best"][returns.bootstrap_N],
        )
        priority_TB.reshape(-1)[returns.row_N] = checked_first_priorities(
            priority_N, len(returns.row_N), self._algorithm
        ).numpy()
        return priority_TB


class _BehaviourPolicy:
    """ "policy" float32 [T, B, P]: the parameters of each step's distribution. With an LSTM also
    "initial_recurrent_state" float32 [B, M]: the recurrent state before the first row. If rewards are normalised also
    RUNNING_RETURN float64 [T, B]: see `RunningReturns`."""

    def __init__(self, algorithm: Algorithm, width: int) -> None:
        self._algorithm = algorithm
        gamma = reward_gamma_of(algorithm)
        self._returns = None if gamma is None else RunningReturns(gamma, width)

    @property
    def act(self) -> Act:
        return self._algorithm.act

    def forward(self, network: Network) -> Forward:
        # The learner computes values with its own network. (After an LSTM, the value head costs almost nothing.)
        is_known = isinstance(network, ActorCritic)
        return functools.partial(network, with_values=False) if is_known else network

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        rollout = sampler.rollout()
        arrays = {"policy": rollout.extras["policy"].numpy()}
        if rollout.recurrent is not None:
            arrays["initial_recurrent_state"] = rollout.recurrent.first_BM.numpy()
        if self._returns is not None:
            arrays[RUNNING_RETURN] = self._returns.of(sampler.trajectory)
        return arrays
