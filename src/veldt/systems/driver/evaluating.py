"""The evaluations of a run, by the driver or by an evaluator.

The driver plays at the end, and between phases if the run's only role is in this process. Otherwise an evaluator plays
during training, and the driver records its results.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import torch

from veldt.evaluation.evaluator import Evaluation, play_steps
from veldt.learning.learner import load_weights
from veldt.runs.directory import RunDirectory
from veldt.systems.driver.monitor import Monitor
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.messages import CurrentWeights, FinishedEvaluation
from veldt.tracking.stage_clock import StageClock


class Evaluating:
    """Plays by the protocol of `veldt evaluate` while no role works, or records what an evaluator has played.

    `evaluated_at` is the step of the last evaluation.
    """

    def __init__(
        self,
        run_plan: RunPlan,
        directory: RunDirectory,
        monitor: Monitor,
        clock: StageClock,
        evaluated_at: int,
    ) -> None:
        self._run_plan, self._directory, self._monitor, self._clock = run_plan, directory, monitor, clock
        self._every = run_plan.config.run.evaluate_every
        self.evaluated_at = evaluated_at

    @property
    def is_due(self) -> bool:
        """Whether a multiple of `evaluate_every` has been passed since the last evaluation."""
        every = self._every
        return bool(every) and self._monitor.steps // every > self.evaluated_at // every

    def is_due_at_the_end(self, reason: str) -> bool:
        """Whether the run ends with an evaluation: one at the same step, after which a callback has stopped the run, is
        not repeated."""
        steps = self._monitor.steps
        is_long_enough = steps >= self._every > 0
        return is_long_enough and reason != "interrupted" and steps > self.evaluated_at

    def play(self, current: CurrentWeights, stop: threading.Event) -> None:
        """Evaluates the policy of these weights, and then the second learner's. If `stop` is set meanwhile, nothing is
        recorded."""
        with self._clock("evaluate"):
            result = self._played(current.weights, stop)
            second = self._played(current.second, stop) if current.second else None
        if not stop.is_set():  # else the evaluation is repeated when the run resumes
            self.evaluated_at = self._monitor.steps
            steps = self._run_plan.config.run.evaluate_steps
            self._monitor.record_evaluation(result, steps, self.evaluated_at, second)

    def _played(self, weights: Mapping[str, np.ndarray], stop: threading.Event) -> Evaluation:
        run_plan = self._run_plan
        steps, seed = run_plan.config.run.evaluate_steps, run_plan.config.run.seed
        network, parameters = run_plan.network()
        load_weights(parameters, {name: np.array(array) for name, array in weights.items()})
        if (threads := run_plan.inference_threads) is not None:
            torch.set_num_threads(threads)
        agent = run_plan.agent(network, self._directory.path)
        return play_steps(agent, steps, seed=seed, greedy=False, stopped=stop.is_set)

    def record(self, message: FinishedEvaluation) -> None:
        """Records what an evaluator has played meanwhile."""
        self.evaluated_at = message.step
        result = Evaluation(list(message.scores), list(message.lengths))
        steps = self._run_plan.config.run.evaluate_steps
        self._monitor.record_evaluation(result, steps, self.evaluated_at)
