"""A second learner that is trained on the replay buffer of the first, which alone acts (Stooke & Abbeel 2018, 5.5).

    python -m veldt.experiments.secondary_learner --env CartPole-v1 --steps 40000 --primary 64 --secondary 2048

Both begin with the same weights, are trained by DQN at the same training intensity, each with its own batch size, and
sample their own batches. Prints one JSON object: for each of several steps, the mean return of both by evaluation, and
the norm of each one's parameters and of their difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.agent import Agent
from veldt.algorithms.base import OffPolicy
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.errors import VeldtError
from veldt.evaluation.evaluator import play_episodes
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.batch_sources import BatchShare, ReplaySource
from veldt.learning.learner import Learner
from veldt.learning.replay_batches import BatchConverter, NoiseWidths
from veldt.learning.targets import TargetNetworks
from veldt.recipes import find
from veldt.recipes.overrides import build_config
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.systems.roles.sampler_learner import SamplerLearner, WorkerRank
from veldt.tracking.stage_clock import StageClock

_EVALUATIONS, _EPISODES = 12, 8
_OWN_DRAWS = 1_000  # added to the seed of the second learner's batches


class _BorrowedReplay(ReplaySource):
    """Batches from a replay buffer that another source fills."""

    def store(self) -> None:
        pass


class Secondary:
    """The second learner: a network, an optimiser and target networks of its own, and the first one's replay buffer."""

    def __init__(self, run_plan: RunPlan, primary: SamplerLearner, seed: int) -> None:
        algorithm = run_plan.algorithm()
        assert isinstance(algorithm, OffPolicy) and isinstance(primary.batch_source, ReplaySource)
        self._algorithm, self._steps = algorithm, run_plan.config.run.steps
        self.network, self.parameters = run_plan.network()
        forward = run_plan.forward(self.network, lambda _: None)
        targets = TargetNetworks(
            algorithm.target_networks,
            self.parameters,
            run_plan.network,
            lambda network: run_plan.forward(network, lambda _: None),
        )
        self._learner = Learner(algorithm, forward, self.parameters, NoAllReduce(), targets)
        self._source = _BorrowedReplay(
            algorithm,
            partial(algorithm.targets, forward, targets.forwards),
            primary.slot,
            primary.batch_source.buffer,
            BatchConverter(run_plan.spec, NoiseWidths.of(algorithm, self.network), run_plan.device),
            BatchShare(algorithm.batch_size, algorithm.learning_starts, seed + _OWN_DRAWS, NoAllReduce()),
            StageClock(),
            note=lambda _: None,
        )

    def learn(self, before: int, steps: int, slot_steps: int) -> None:
        """Makes the updates that are due after `steps` steps of the first learner; `before` its last rollout."""
        progress = min(1.0, before / self._steps)
        rate = self._algorithm.learning_rate(progress, slot_steps)
        for batch, _ in self._source.batches(steps, progress):
            loss = self._learner.update(batch, progress, rate)
            self._source.update_priorities(loss.priority)


def run_both(
    env: str, steps: int, primary_batch: int, secondary_batch: int, seed: int, settings: dict[str, Any]
) -> Iterator[dict[str, float]]:
    """Trains both; yields a row of scores and norms at each evaluation."""
    plans = [_plan(env, steps, batch, seed, settings) for batch in (primary_batch, secondary_batch)]
    primary = SamplerLearner(plans[0], WorkerRank(seed), StageClock(), None, lambda text, about="note": None)
    try:
        secondary = Secondary(plans[1], primary, seed)
        primary.begin(None)
        done, evaluated = 0, 0
        while done < steps:
            before = done
            done += primary.run_phase(done, done, lambda loss, lag, rate: None).steps
            secondary.learn(before, done, primary.slot.steps * primary.slot.width)
            if done * _EVALUATIONS >= (evaluated + 1) * steps or done >= steps:
                evaluated += 1
                yield _row(plans, primary, secondary, done)
    finally:
        primary.close()


def _plan(env: str, steps: int, batch: int, seed: int, settings: dict[str, Any]) -> RunPlan:
    given = {"env": env, "steps": steps, "seed": seed, "batch_size": batch, "threads": 1, **settings}
    given = {"env_backend": "in-process", "learning_starts": max(1_000, 2 * batch), **given}
    given.pop("env")
    config = build_config(find("dqn").draft(env, None), given)
    return make_run_plan(RunRequest(config, resolve(env)))


def _row(plans: list[RunPlan], primary: SamplerLearner, secondary: Secondary, step: int) -> dict[str, float]:
    networks = {"primary": primary.network, "secondary": secondary.network}
    row: dict[str, float] = {"step": step}
    for (name, network), plan in zip(networks.items(), plans, strict=True):
        agent = Agent(
            plan.config, plan.source, plan.spec, network, path=Path(), step=step, device=plan.device
        )
        row[f"{name}_score"] = float(np.mean(play_episodes(agent, _EPISODES, seed=step, greedy=False).scores))
    first_P, second_P = primary.parameters.fp32_params.detach(), secondary.parameters.fp32_params.detach()
    row |= {"primary_norm": float(first_P.norm()), "secondary_norm": float(second_P.norm())}
    return row | {"distance": float((first_P - second_P).norm())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True, help="steps of the first learner")
    parser.add_argument("--primary", type=int, required=True, help="batch size of the first learner")
    parser.add_argument("--secondary", type=int, required=True, help="batch size of the second one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settings", type=json.loads, default={}, help="of both, as a JSON object")
    asked = parser.parse_args()
    try:
        rows = list(
            run_both(asked.env, asked.steps, asked.primary, asked.secondary, asked.seed, asked.settings)
        )
    except VeldtError as error:  # one sentence, as of the command `veldt`: the experiment shows it
        sys.exit(f"veldt: {error}")
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
