"""The evaluator as a role: plays with the newest weights while training continues, as `veldt evaluate` would.

weights ==> evaluator ==episodes, evaluations==> the run's records
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from veldt.agent import Agent
from veldt.config.train_config import TrainConfig
from veldt.envs.arrangement import Arrangement, make_vector_envs
from veldt.envs.seeding import EVALUATION, derive_seed
from veldt.envs.settings import EnvConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.evaluation.evaluator import play_steps
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.weights import Weights
from veldt.networks.own import OwnParts
from veldt.runtime.roles import Control
from veldt.sampling.episodes import EpisodeTracker
from veldt.sampling.sampler import ActingPolicy, InferencePlace, Sampler
from veldt.systems.roles.messages import FinishedEpisodes, FinishedEvaluation
from veldt.systems.roles.pulled_network import PulledNetwork
from veldt.tracking.stage_clock import StageClock

_ROWS = 16  # steps between checks for newer weights
_WAIT_S = 0.1  # seconds between checks whether there is something to play
_STILL_S = 5.0  # a run that has not moved for so long stands still


@dataclass(frozen=True)
class EvaluatorPlan:
    """Its `width` envs are numbered from `first`. `evaluated_at` is the agent step of the last evaluation."""

    config: TrainConfig
    source: EnvSource
    spec: EnvSpec
    network: OwnParts
    first: int
    width: int
    share: float
    evaluated_at: int = 0
    incarnations: int = 0


def run_evaluator(control: Control, plan: EvaluatorPlan, weights: Weights, rate_limiter: RateLimiter) -> None:
    """Entry point of the role: plays for its share of the time, and evaluates by the protocol when that is due."""
    torch.set_num_threads(1)
    policy = PulledNetwork(plan.config, plan.spec, plan.network, weights)
    player = _Player(control, plan, policy) if plan.share else None
    every, evaluated_at = plan.config.run.evaluate_every, plan.evaluated_at
    movement = _Movement()
    try:
        while not control.stopping:
            control.heartbeat()
            if not policy.pull_if_newer():
                control.sleep(_WAIT_S)
                continue
            if every and rate_limiter.steps // every > evaluated_at // every:
                evaluated_at = rate_limiter.steps
                _evaluate(control, plan, policy, evaluated_at)
            if player is None or not movement.is_recent(rate_limiter.steps, policy.version):
                control.sleep(_WAIT_S)
            else:
                began, worked = time.monotonic(), time.thread_time()
                player.play_steps()
                # Where cores are short, time spent waiting for a core counts as rest.
                due = began + (time.thread_time() - worked) / plan.share
                _rest_until(control, due)
    finally:
        if player is not None:
            player.close()


class _Movement:
    """Whether the run moves: makes steps, or publishes weights.

    While the actors are being started, all episodes would be of the same policy, and there is all the time to play tens
    of thousands of them.
    """

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = None
        self._moved_s = -math.inf

    def is_recent(self, steps: int, version: int) -> bool:
        """Whether the run has moved lately; False until it has moved for the first time that this process sees."""
        now_s, at = time.monotonic(), (steps, version)
        if self._at not in (None, at):
            self._moved_s = now_s
        self._at = at
        return now_s - self._moved_s <= _STILL_S


def _rest_until(control: Control, end: float) -> None:
    while (remaining := end - time.monotonic()) > 0 and not control.stopping:
        control.heartbeat()
        control.sleep(min(remaining, _WAIT_S))


def _evaluate(control: Control, plan: EvaluatorPlan, policy: PulledNetwork, step: int) -> None:
    """Plays by the protocol of `veldt evaluate`."""
    config = dataclasses.replace(plan.config, envs=_in_process(plan))
    agent = Agent(
        config,
        plan.source,
        plan.spec,
        policy.network,
        path=Path(),
        step=step,
        device=torch.device("cpu"),
    )

    def stopped() -> bool:
        control.heartbeat()
        return control.stopping

    steps, seed = config.run.evaluate_steps, config.run.seed
    result = play_steps(agent, steps, seed=seed, greedy=False, stopped=stopped)
    if not control.stopping:
        control.send(FinishedEvaluation(step, result.scores, result.lengths))


def _in_process(plan: EvaluatorPlan) -> EnvConfig:
    return dataclasses.replace(
        plan.config.envs,
        num_envs=plan.width,
        env_backend="in-process",
        processes=0,
        alternate="off",
        random_start_steps=0,
    )


class _Player:
    """Plays episodes in its envs, always with the newest policy."""

    def __init__(self, control: Control, plan: EvaluatorPlan, policy: PulledNetwork) -> None:
        self._control, self._plan, self._policy = control, plan, policy
        config = plan.config
        algorithm = config.make_algorithm(plan.spec.action)
        self._seed = derive_seed(config.run.seed, EVALUATION, plan.incarnations + control.restart_count)
        settings = StepperSettings(plan.source, self._seed, _in_process(plan), config.atari, plan.first)
        arrangement = Arrangement("in-process", 0, 1, (), "an evaluator's own")
        self._envs = make_vector_envs(settings, plan.spec, _ROWS, arrangement, stacks=True)
        self._episodes = EpisodeTracker(plan.width, self._envs.start())
        self._sampler = Sampler(
            self._envs,
            ActingPolicy.of(algorithm, policy.network),
            InferencePlace(torch.device("cpu")),
            self._seed,
            StageClock(),
            heartbeat=control.heartbeat,
        )

    def play_steps(self) -> None:
        """Plays a few steps in every env."""
        self._sampler.version = self._policy.version
        self._sampler.sample(None)
        if episodes := self._episodes.add(self._sampler.trajectory):
            self._control.send(FinishedEpisodes.of_role(episodes, self._seed, self._plan.first))
        self._sampler.start_next_rollout()

    def close(self) -> None:
        self._envs.close()
