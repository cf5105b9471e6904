"""A process of GA3C's agents: each plays in an env of its own, and requests every action from the model.

    model ==answers==> agents (envs) ==requests==> model
                                     ==rollouts==> training queue

Each agent continues on its own as soon as its answer arrives (Babaeizadeh et al. 2017, section 2). A rollout is T
steps of one agent with the policy's outputs for them; it includes the last reward, and an episode may end anywhere.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from veldt.config.train_config import TrainConfig
from veldt.envs.arrangement import Arrangement, make_vector_envs
from veldt.envs.seeding import ACTION, ACTOR, derive_seed, uniform
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.exchange.inference import InferenceClient, InferenceEdge
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import SlotOut, Slots
from veldt.learning.normalisation import RunningReturns, reward_gamma_of
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.sampling.episodes import Episode, EpisodeTracker
from veldt.sampling.unrolls import RUNNING_RETURN
from veldt.systems.roles.messages import ActorMetrics, FinishedEpisodes
from veldt.systems.roles.scale_notes import ScaleWarning
from veldt.tracking.stage_clock import StageClock

_WAIT_S = 0.25  # seconds without a heartbeat while it waits for answers
_POLL_S = 0.002  # the same, while agents also wait for the queue or the rate limiter
_SEND_S = 1.0  # seconds between messages with time spent per stage
_SEND_EPISODES_S = 0.1  # seconds between messages with episodes: short ones end by the hundred
# For steps slower than this, a predictor is woken for each agent's request.
_SLOW_S = 100e-6
_NOISE_ROWS = 128  # rows of an agent's noise that are made at once


@dataclass(frozen=True)
class AgentsPlan:
    """Agents `first` up to `first + width` of the run play in the process `number`.

    `actor_outputs` are the layouts of the policy's outputs for one step, `noise_width` the random numbers per action,
    `recurrent_size` the size of an agent's recurrent state. `incarnations` counts the role's process starts before
    the run was resumed: every incarnation plays other episodes.
    """

    config: TrainConfig
    source: EnvSource
    spec: EnvSpec
    number: int
    first: int
    width: int
    steps: int
    actor_outputs: Mapping[str, Layout]
    noise_width: int
    recurrent_size: int
    incarnations: int = 0


def run_agent_process(
    control: Control, plan: AgentsPlan, inference: InferenceEdge, slots: Slots, rate_limiter: RateLimiter
) -> None:
    """Entry point of the role: plays until it is asked to stop."""
    torch.set_num_threads(1)
    agents = AgentHost(
        control, plan, inference.client(plan.number), slots.producer(plan.number), rate_limiter
    )
    try:
        while not control.stopping:
            control.heartbeat()
            agents.step()
        agents.send_metrics()
    finally:
        agents.close()


class AgentHost:
    """See the module."""

    def __init__(
        self,
        control: Control,
        plan: AgentsPlan,
        inference: InferenceClient,
        out: SlotOut,
        rate_limiter: RateLimiter,
    ) -> None:
        self._control, self._plan, self._inference = control, plan, inference
        self._out, self._rate_limiter = out, rate_limiter
        config, width, steps = plan.config, plan.width, plan.steps
        starts = plan.incarnations + control.restart_count
        self._algorithm = config.make_algorithm(plan.spec.action)
        self._algorithm.set_env_slice(plan.first, config.envs.num_envs)
        self._seed = derive_seed(config.run.seed, ACTOR, plan.number, starts)
        envs = dataclasses.replace(config.envs, num_envs=width, alternate="off")
        settings = StepperSettings(plan.source, self._seed, envs, config.atari, plan.first)
        arrangement = Arrangement("in-process", 0, width, (), "agents")
        self._envs = make_vector_envs(settings, plan.spec, steps, arrangement, stacks=True)
        self._slot = slot = self._envs.trajectory
        self._columns = [slot.part(slice(b, b + 1)) for b in range(width)]
        prefixes = self._envs.start()
        self._episodes = [EpisodeTracker(1, {0: prefixes[b]}) for b in range(width)]
        self._actor_outputs = {
            name: np.zeros((steps, width, *layout.shape), layout.dtype)
            for name, layout in plan.actor_outputs.items()
        }
        gamma = reward_gamma_of(self._algorithm)
        self._returns = [] if gamma is None else [RunningReturns(gamma, 1) for _ in range(width)]
        # Recurrent state of each agent now, and before the first row of its rollout.
        self._recurrent_WM, self._first_recurrent_WM = np.zeros((2, width, plan.recurrent_size), np.float32)
        self._noise_RWK = np.empty((_NOISE_ROWS, width, plan.noise_width), np.float32)
        self._row_W, self._step_W = np.zeros(width, np.int64), np.zeros(width, np.int64)
        self._is_slow = False
        self._scale_warning = ScaleWarning(
            config, self._algorithm, plan.number == 0 and starts == 0, lambda *note: control.send(Note(*note))
        )
        self._full: list[int] = []  # agents whose full rollouts wait for room in the queue
        self._idle = list(range(width))  # agents that start a rollout as soon as they may
        self._finished: list[Episode] = []
        self._clock, self._reset_steps = StageClock(), 0
        self._sent_at = self._episodes_sent_at = time.monotonic()

    def step(self) -> None:
        """Advances all agents that can continue; waits a moment if none can."""
        self._hand_over()
        self._start_rollouts()
        with self._clock("wait" if self._is_blocked else "infer"):
            if self._is_blocked:
                self._wait_for_room()
            agent_R = self._inference.answered(_POLL_S if self._full or self._idle else _WAIT_S)
        if len(agent_R):
            # One by one, a predictor can start with the first request while the others still step.
            for part_R in np.split(agent_R, len(agent_R)) if self._is_slow else (agent_R,):
                self._control.heartbeat()
                self._act(part_R)
        self._send_periodically()

    def close(self) -> None:
        self._envs.close()

    @property
    def _is_blocked(self) -> bool:
        """Whether no agent can continue before there is room in the queue."""
        return len(self._full) + len(self._idle) == self._plan.width

    def _wait_for_room(self) -> None:
        if self._full:
            self._out.slot(_WAIT_S / 10)
        else:
            self._control.sleep(_POLL_S)

    def _start_rollouts(self) -> None:
        """Requests the first actions of new rollouts."""
        if not self._idle or not self._rate_limiter.may_act():
            return
        active_W = self._inference.active_W
        starting = [b for b in self._idle if active_W[b]]
        if starting:
            self._idle = [b for b in self._idle if not active_W[b]]
            self._first_recurrent_WM[starting] = self._recurrent_WM[starting]
            self._request(np.array(starting))

    def _request(self, agent_R: np.ndarray) -> None:
        row_R, slot, requests = self._row_W[agent_R], self._slot, self._inference.requests
        for name, array in slot.observation.items():
            if name in slot.stacks:
                stacks = slot.stacks[name]
                requests[f"observation/{name}"][agent_R] = stacks[row_R % len(stacks), agent_R]
            else:
                requests[f"observation/{name}"][agent_R] = array[slot.history + row_R, agent_R]
        noise_R = self._step_W[agent_R] % _NOISE_ROWS
        if not noise_R.all():
            self._make_noise(agent_R[noise_R == 0])
        requests["noise"][agent_R] = self._noise_RWK[noise_R, agent_R]
        if self._plan.recurrent_size:
            requests["recurrent_state"][agent_R] = self._recurrent_WM[agent_R]
            requests["begins"][agent_R] = slot.episode_step[row_R, agent_R] == 0
        self._inference.request(agent_R)

    def _make_noise(self, agent_R: np.ndarray) -> None:
        """Makes the noise of the next steps of these agents; it depends only on seed, agent and step count."""
        for b in agent_R.tolist():
            step_R = np.arange(self._step_W[b], self._step_W[b] + _NOISE_ROWS)
            numbers = uniform(
                self._seed, ACTION, np.array([self._plan.first + b]), step_R, self._plan.noise_width
            )
            prepared = self._algorithm.prepare_noise(torch.from_numpy(numbers), self._rate_limiter.steps)
            self._noise_RWK[:, b] = prepared[:, 0].numpy()

    def _act(self, agent_R: np.ndarray) -> None:
        """Makes one step of each of these agents, whose answers have arrived."""
        row_R, answers, slot = self._row_W[agent_R], self._inference.answers, self._slot
        slot.action[row_R, agent_R] = answers["action"][agent_R]
        slot.version[row_R, agent_R] = answers["version"][agent_R]
        for name, array in self._actor_outputs.items():
            array[row_R, agent_R] = answers[name][agent_R]
        if self._plan.recurrent_size:
            self._recurrent_WM[agent_R] = answers["recurrent_state"][agent_R]
        with self._clock("simulate"):
            begin = time.perf_counter()
            for b, row in zip(agent_R.tolist(), row_R.tolist(), strict=True):
                self._envs.step(b, row)
                self._envs.wait(b, row)
            self._is_slow = time.perf_counter() - begin > _SLOW_S * len(agent_R)
        self._row_W[agent_R] += 1
        self._step_W[agent_R] += 1
        is_full_R = row_R + 1 == self._plan.steps
        if is_full_R.any():
            self._full += agent_R[is_full_R].tolist()
            agent_R = agent_R[~is_full_R]
        if len(agent_R):
            self._request(agent_R)

    def _hand_over(self) -> None:
        """Hands over full rollouts while there is room in the queue."""
        while self._full:
            arrays = self._out.slot(0.0)
            if arrays is None:
                return
            b = self._full.pop(0)
            column, part = self._columns[b], slice(b, b + 1)
            self._scale_warning.look_at(column)
            with self._clock("replay"):
                column.copy_to(arrays)
                for name, array in self._actor_outputs.items():
                    np.copyto(arrays[name], array[:, part])
                if self._returns:
                    arrays[RUNNING_RETURN][...] = self._returns[b].of(column)
                if self._plan.recurrent_size:
                    np.copyto(arrays["initial_recurrent_state"], self._first_recurrent_WM[part])
                    np.copyto(arrays["final_recurrent_state"], self._recurrent_WM[part])
                self._out.commit()
                steps = int(column.valid.sum())
                self._rate_limiter.steps_A[self._plan.number] += steps
                self._reset_steps += column.valid.size - steps
                self._finished += [
                    dataclasses.replace(episode, env_index=b) for episode in self._episodes[b].add(column)
                ]
                self._slot.start_next_rollout(part)
                self._row_W[b] = 0
                self._idle.append(b)

    def send_metrics(self) -> None:
        """Sends the time spent per stage, finished episodes, and what happened to envs."""
        self._sent_at = time.monotonic()
        self._send_episodes()
        for text in self._envs.notes():
            self._control.send(Note(text, "restart"))
        self._control.send(
            ActorMetrics(
                restart_count=self._control.restart_count,
                reset_steps=self._reset_steps,
                env_restarts=int(self._slot.restarts.sum()),
                seconds=dict(self._clock.seconds),
            )
        )

    def _send_periodically(self) -> None:
        now = time.monotonic()
        if now - self._sent_at > _SEND_S:
            self.send_metrics()
        elif now - self._episodes_sent_at > _SEND_EPISODES_S:
            self._send_episodes()

    def _send_episodes(self) -> None:
        self._episodes_sent_at = time.monotonic()
        if self._finished:
            self._control.send(FinishedEpisodes.of_role(self._finished, self._seed, self._plan.first))
            self._finished = []
