"""The evaluator as a role: plays by the newest weights beside training, as a trained policy is evaluated.

weights ==> evaluator ==games, evaluations==> the run's records
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from veldt.agent import Agent, make_network
from veldt.config import TrainConfig
from veldt.exchange.pace import Pace
from veldt.exchange.weights import Weights
from veldt.networks.build import TorsoFactory
from veldt.networks.precision import apply_precision
from veldt.networks.recurrent import memory_of
from veldt.runtime.roles import Control
from veldt.simulators.choose import Plan, make_simulators
from veldt.simulators.seeding import EVALUATION, derive_seed
from veldt.simulators.simulator import StepperSettings
from veldt.simulators.source import EnvSource
from veldt.simulators.spec import SimulatorSpec
from veldt.systems.episodes import EpisodeBook
from veldt.systems.evaluator import play_steps
from veldt.systems.game_messages import say_games
from veldt.systems.sampler import Sampler
from veldt.systems.stages import StageClock

_ROWS = 16  # steps between looks for newer weights
_WAIT_S = 0.1


@dataclass(frozen=True)
class EvaluatorPlan:
    """Its `width` simulators are numbered from `first`. `evaluated_at` are the steps of the last evaluation."""

    config: TrainConfig
    source: EnvSource
    spec: SimulatorSpec
    network: TorsoFactory | None
    first: int
    width: int
    share: float
    evaluated_at: int = 0
    lives: int = 0


def run_evaluator(control: Control, plan: EvaluatorPlan, weights: Weights, pace: Pace) -> None:
    """The role: plays all the time, or as much of it as its share is; and evaluates when that is due."""
    torch.set_num_threads(1)
    evaluator = _Evaluator(control, plan, weights)
    every, evaluated_at = plan.config.run.evaluate_every, plan.evaluated_at
    try:
        while not control.stopping:
            control.beat()
            if every and pace.steps // every > evaluated_at // every:
                evaluated_at = pace.steps
                evaluator.evaluate(evaluated_at)
            began = time.monotonic()
            if plan.share and evaluator.play():
                took = time.monotonic() - began
                _rest(control, took / plan.share - took)
            else:
                control.sleep(_WAIT_S)
    finally:
        evaluator.close()


def _rest(control: Control, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not control.stopping:
        control.beat()
        control.sleep(min(left, _WAIT_S))


class _Evaluator:
    def __init__(self, control: Control, plan: EvaluatorPlan, weights: Weights) -> None:
        self._control, self._plan, self._weights = control, plan, weights
        config, spec = plan.config, plan.spec
        simulation = dataclasses.replace(
            config.simulation,
            num_simulators=plan.width,
            simulators="in-process",
            processes=0,
            alternate="off",
            decorrelate=0,
        )
        self._network = make_network(config, spec, plan.network)
        self._parameters = apply_precision(self._network, config.run.precision, torch.device("cpu"))
        self._arrays, self._version = self._parameters.arrays(), -1
        weights.check(self._arrays)
        self._config = dataclasses.replace(config, simulation=simulation)
        algorithm = config.make_algorithm(spec.action)
        self._seed = derive_seed(config.run.seed, EVALUATION, plan.lives + control.attempt)
        settings = StepperSettings(plan.source, self._seed, simulation, config.atari)
        here = Plan("in-process", 0, 1, (), "an evaluator's own")
        self._simulators = make_simulators(settings, spec, _ROWS, here, stacks=True)
        self._book = EpisodeBook(plan.width, self._simulators.start())
        self._sampler = Sampler(
            self._simulators,
            algorithm,
            self._network,
            torch.device("cpu"),
            self._seed,
            StageClock(),
            noise=algorithm.action_noise(self._network),
            memory=memory_of(self._network),
        )

    def play(self) -> bool:
        """A few steps of every game; False while there are no weights to play by."""
        if not self._pull():
            return False
        self._sampler.sample(None)
        if games := self._book.add(self._sampler.trajectory):
            say_games(self._control, games, self._seed, self._plan.first)
        self._sampler.carry_over()
        return True

    def evaluate(self, step: int) -> None:
        """Plays by the protocol of `evaluate`."""
        if not self._pull():
            return
        plan = self._plan
        agent = Agent(
            self._config,
            plan.source,
            plan.spec,
            self._network,
            path=Path(),
            step=step,
            device=torch.device("cpu"),
        )

        def stopped() -> bool:
            self._control.beat()
            return self._control.stopping

        result = play_steps(
            agent, self._config.run.evaluate_steps, seed=self._config.run.seed, greedy=False, stopped=stopped
        )
        if not self._control.stopping:
            self._control.say("evaluation", step=step, scores=result.scores, lengths=result.lengths)

    def close(self) -> None:
        self._simulators.close()

    def _pull(self) -> bool:
        version = self._weights.pull_if_newer(self._version, self._arrays)
        if version != self._version:
            self._version = self._sampler.version = version
            self._parameters.refresh()
        return version >= 0
