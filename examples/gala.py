"""A system of one's own: gossip between actor-learners (GALA, Assran et al. 2019), as a plug-in of veldt.

    learner 0 --weights--> learner 1 --weights--> learner 2 --weights--> learner 0

Each learner acts in its share of the envs and learns from its own batches. After each phase it publishes its weights,
and moves to the mean of its own weights and the newest ones of its neighbour, for which it does not wait.

`veldt train gala-a2c --plugin gala --env CartPole-v1`, or any algorithm: `--algorithm ppo`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

import veldt
from veldt.config.system_settings import RolesConfig, check_even
from veldt.exchange.graph import Edge, Graph, Role
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.exchange.weights import Weights
from veldt.learning.snapshot import Groups
from veldt.recipes import RECIPES, Recipe, Sourced
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.setting_metadata import Range, Unit
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import evaluators, sampler_learner_deadline_s, weights_edge
from veldt.systems.roles.independent_learner import (
    IndependentPlan,
    IndependentSamplerLearner,
    independent_plans,
)
from veldt.systems.roles.sampler_learner import GroupContext

_WAIT_S = 5.0  # for a neighbour's weights; it may have been lost, too


@dataclass(frozen=True, kw_only=True)
class GalaConfig(RolesConfig):
    """The learners of GALA."""

    learners: Annotated[int, Unit("processes")] = 4
    """Learners, each with its share of the envs and batches of its own."""
    mixing: Annotated[float, Unit("fraction"), Range(0.0, 1.0)] = 0.5
    """How far a learner moves to its neighbour's weights; 0: it learns alone."""

    is_synchronised = False  # no two learners make an update together,
    owns_envs = True  # and each learns from its own envs only

    def check_envs(self, envs: int) -> None:
        check_even(envs, self.learners, "learners", "learner")


def gala(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the roles and edges of a run: a ring of learners."""
    config, count = run_plan.config, run_plan.config.roles.learners
    rows = run_plan.algorithm().update_rows(config.phase_width)
    counts = Edge(
        "learner", "learner", "counts of steps and updates", RateLimiterSpec.free(count, count, rows)
    )
    edges = {"rate_limiter": counts}
    edges |= {f"weights {rank}": weights_edge(run_plan, "learner", writer=rank) for rank in range(count)}
    learner = Role(
        "learner",
        "acts, learns from its own batches, and averages its weights with its neighbour's",
        run_gala_learner,
        independent_plans(run_plan, run, checkpoint),
        [
            {
                "rate_limiter": "rate_limiter",
                "own": f"weights {rank}",
                "neighbour": f"weights {(rank - 1) % count}",
            }
            for rank in range(count)
        ],
        config.roles.max_restarts,
        sampler_learner_deadline_s(config),
        num_checkpointed=count,
        resumes_from="its neighbour's weights",
    )
    return Graph((learner, *evaluators(run_plan, checkpoint, weights="weights 0")), edges)


@flush_denormals()
def run_gala_learner(
    control: Control, plan: IndependentPlan, rate_limiter: RateLimiter, own: Weights, neighbour: Weights
) -> None:
    """Entry point of a learner's process: samples and learns until it is asked to stop."""
    GalaLearner(control, plan.placed(control.peers), rate_limiter, own, neighbour).run()


class GalaLearner(IndependentSamplerLearner):
    def __init__(
        self,
        control: Control,
        plan: IndependentPlan,
        rate_limiter: RateLimiter,
        own: Weights,
        neighbour: Weights,
    ) -> None:
        super().__init__(control, plan, rate_limiter, GroupContext(heartbeat=control.heartbeat))
        self._own, self._neighbour, self._seen = own, neighbour, -1
        self._received = {
            name: array.copy() for name, array in self._sampler_learner.parameters.arrays().items()
        }
        self._mixed = 0
        if control.restart_count:  # after a loss, it continues from the neighbour's weights alone
            self._take_neighbours()
        self.load_shared_parameters()

    def after_phase(self) -> None:
        self._own.publish(self._sampler_learner.learner.version, self._sampler_learner.parameters.arrays())
        self._mix(self._plan.run_plan.config.roles.mixing)
        self._sampler_learner.acts_by_newest()

    def _take_neighbours(self) -> None:
        """Waits for the neighbour's weights a moment: on a cluster, they come after they are asked for."""
        end = time.monotonic() + _WAIT_S
        while not self._mixed and time.monotonic() < end and not self._control.stopping:
            self._control.heartbeat()
            self._mix(1.0)
            self._control.sleep(0.02)

    def _mix(self, fraction: float) -> None:
        """Moves the parameters to the neighbour's by `fraction`, if it has published newer ones."""
        seen = self._neighbour.pull_if_newer(self._seen, self._received)
        if seen == self._seen:
            return
        self._seen, parameters = seen, self._sampler_learner.parameters
        own = parameters.tensors()
        parameters.load(
            {name: own[name].lerp(torch.from_numpy(self._received[name]), fraction) for name in own}
        )
        self._mixed += 1

    def before_snapshot(self) -> None:
        """There is nothing to flush."""

    def shared_groups(self, groups: Groups) -> Groups:
        """A checkpoint has the weights of learner 0, with which all learners of a resumed run begin."""
        return {name: groups[name] for name in ("weights", "optimiser")}

    def exchange_metrics(self) -> dict[str, float]:
        return {"system/mixed": float(self._mixed)}


veldt.register_system("gala", GalaConfig, gala)
veldt.register_recipe(
    Recipe(
        name="gala-a2c",
        algorithm="a2c",
        system="gala",
        summary="A2C by learners that average their weights with a neighbour's (Assran et al. 2019)",
        atari={**RECIPES["a3c"].atari, "num_envs": Sourced(64, "Assran et al. 2019, table 1")},
        small={**RECIPES["a3c"].small, "num_envs": Sourced(32, "8 of each of 4 learners")},
    )
)
