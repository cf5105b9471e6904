"""Synchronised sampling in alternating groups (Stooke & Abbeel, section 4.1 and figure 1).

    group 0   act | step ........ | act | step ........ |
    group 1             act | step ........ | act | step ...

While one group steps, the actions of the other are computed, so the shorter of the two times is hidden. This does not
change results: noise belongs to envs and steps and not to batches, so the order of groups changes no action. (A network
may round differently in batches of another size; the same setup repeats bit for bit.)
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm, Forward
from veldt.algorithms.rollout import Observation, RecurrentRollout, Rollout, bootstrap_forward
from veldt.envs.in_process import VectorEnvs
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.trajectory import STEP_FLAGS
from veldt.networks.recurrent import RecurrentState, recurrent_size_of
from veldt.runtime.devices import to_device
from veldt.runtime.usual_torch import refuse_modes_left_on
from veldt.sampling.checked_actions import checked_act, checked_noise, num_noise
from veldt.sampling.observations import slot_observations
from veldt.tracking.stage_clock import StageClock

Act = Callable[[Forward, Observation, Tensor], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class ActingPolicy:
    """What chooses actions.

    Args:
        forward: the network's forward pass, or the part of it that acting needs.
        act: the algorithm's `act`, or another of its functions that chooses actions and returns more extras.
        noise_width: number of uniform values that an action needs.
        recurrent_size: size of each env's recurrent state; see `recurrent_size_of`.
    """

    algorithm: Algorithm
    forward: Forward
    act: Act
    noise_width: int
    recurrent_size: int

    @classmethod
    def of(
        cls, algorithm: Algorithm, network: nn.Module, forward: Forward | None = None, act: Act | None = None
    ) -> ActingPolicy:
        """Returns the policy of this network, which acts by `forward` and `act` if they are given."""
        return cls(
            algorithm,
            forward or network,
            act or algorithm.act,
            num_noise(algorithm, network),
            recurrent_size_of(network),
        )


@dataclass(frozen=True)
class InferencePlace:
    """Where inference runs.

    Args:
        threads: torch's number of threads; None leaves it as it is.
        cores: cores on which it runs in turn. If envs are pinned to all cores, inference on a single core would delay
            that core's envs at every step, and all other envs would wait for them.
    """

    device: torch.device
    threads: int | None = None
    cores: Sequence[int] = ()


class Sampler:
    """Fills trajectory buffers by acting in all envs.

    `phase` counts rollouts, also those before the run was resumed: the noise sequence continues there.

    Args:
        first: index in the run of the first env.
        heartbeat: called before each step of a group.
    """

    def __init__(
        self,
        envs: VectorEnvs,
        policy: ActingPolicy,
        place: InferencePlace,
        run_seed: int,
        clock: StageClock,
        first: int = 0,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self._envs, self._algorithm, self._forward = envs, policy.algorithm, policy.forward
        self._choose, self._noise_width = policy.act, policy.noise_width
        self._device, self.threads, self._cores = place.device, place.threads, place.cores
        self._run_seed, self._clock, self._first, self._heartbeat = run_seed, clock, first, heartbeat
        self.trajectory = envs.trajectory
        self._observations = slot_observations(self.trajectory, place.device)
        self._extras: dict[str, Tensor] = {}
        size = policy.recurrent_size
        self._is_recurrent = size > 0
        self._recurrent_state = RecurrentState(policy.forward, size, self.trajectory.width, place.device)
        self.initial_state_BM = self._recurrent_state.state_BM.clone()  # before the buffer's first row
        self.phase = 0
        self.version = 0

    @torch.no_grad()
    def sample(self, steps: int | None) -> None:
        """Fills the buffer: T steps of every env, from the end of the last rollout, after `steps` of training.

        None: acts as in evaluation.
        """
        trajectory, envs = self.trajectory, self._envs
        groups = range(len(envs.groups))
        with self._clock("infer"):
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            noise_TBK = self._noise(steps)
            self._last_noise = noise_TBK[-1]
            self._recurrent_state.state_BM.copy_(self.initial_state_BM)
        with _rotating_cores(self._cores) as next_core:
            for group in groups:
                next_core()
                self._act(group, 0, noise_TBK)
            for t in range(trajectory.steps):
                for group in groups:
                    with self._clock("simulate"):
                        envs.wait(group, t)
                    if t + 1 < trajectory.steps:
                        next_core()
                        self._act(group, t + 1, noise_TBK)
        refuse_modes_left_on()
        self.phase += 1

    def start_next_rollout(self) -> None:
        """Copies the last row to the first, with its recurrent state: the next rollout begins there."""
        self._envs.start_next_rollout()
        self._observations.start_next_rollout()
        self.initial_state_BM = self._recurrent_state.state_BM.clone()

    def _noise(self, steps: int | None) -> Tensor:
        rows, width = self.trajectory.steps, self.trajectory.width
        step_T = np.arange(self.phase * rows, (self.phase + 1) * rows)
        env_B = np.arange(self._first, self._first + width)
        noise = uniform(self._run_seed, ACTION, env_B, step_T, self._noise_width)
        prepared = self._algorithm.prepare_noise(torch.from_numpy(noise), steps)
        return to_device(checked_noise(prepared, (rows, width), self._algorithm), self._device)

    def _act(self, group: int, t: int, noise_TBK: Tensor) -> None:
        part = self._envs.groups[group]
        self._heartbeat()
        with self._clock("infer"):
            observation = self._observations.row(t, part)
            forward = self._forward
            if self._is_recurrent:
                forward = self._recurrent_state.at(part, self.trajectory.episode_step[t, part])
            returned = self._choose(forward, observation, noise_TBK[t, part])
            rows = part.stop - part.start
            action, extras = checked_act(returned, rows, self.trajectory.spec.action, self._algorithm)
            self.trajectory.action[t, part] = action
            self.trajectory.version[t, part] = self.version
        with self._clock("simulate"):
            self._envs.step(group, t)
        # After the step was started, so that the envs need not wait for it.
        for name, values in extras.items():
            if name not in self._extras:
                self._extras[name] = self._empty(values)
            self._extras[name][t, part] = values

    def _empty(self, like: Tensor) -> Tensor:
        shape = (self.trajectory.steps, self.trajectory.width, *like.shape[1:])
        return torch.zeros(shape, dtype=like.dtype, device=self._device)

    @torch.no_grad()
    def actor_outputs(self) -> dict[str, Tensor]:
        """Returns the policy's extras of the last rollout's rows and of the row after it: [(T + 1) B, ...]."""
        forward = bootstrap_forward(self._forward, self._recurrent_rollout())
        _, last = self._choose(forward, self._observations.last(), self._last_noise)
        return {name: torch.cat([rows.flatten(0, 1), last[name]]) for name, rows in self._extras.items()}

    def rollout(self) -> Rollout:
        """Returns the result of the last `sample`, as input of an algorithm."""
        trajectory = self.trajectory
        flags: Mapping[str, Tensor] = {name: self._tensor(getattr(trajectory, name)) for name in STEP_FLAGS}
        return Rollout(
            observations=self._observations,
            action=self._tensor(trajectory.action),
            reward=self._tensor(trajectory.reward),
            extras=self._extras,
            recurrent=self._recurrent_rollout(),
            **flags,
        )

    def _recurrent_rollout(self) -> RecurrentRollout | None:
        if not self._is_recurrent:
            return None
        begins_SB = self._tensor(self.trajectory.episode_step == 0)
        return RecurrentRollout(self.initial_state_BM, begins_SB, last_BM=self._recurrent_state.state_BM)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(array), self._device)


@contextlib.contextmanager
def _rotating_cores(cores: Sequence[int]) -> Iterator[Callable[[], None]]:
    """Yields a function that moves the calling thread to the next of `cores`; restores the affinity afterwards.

    Threads that are started meanwhile would also be pinned to one core: the block should start none.
    """
    if len(cores) < 2 or not hasattr(os, "sched_setaffinity"):
        yield lambda: None
        return
    before, turns = os.sched_getaffinity(0), itertools.cycle(cores)
    try:
        yield lambda: os.sched_setaffinity(0, {next(turns)})
    finally:
        os.sched_setaffinity(0, before)
