"""The learner of Gorila with separate actors: draws whole batches of its own from the replay shards.

replay shards ==batches==> learner ==gradient==> parameter shards
                              ^                      |
                              +-- newest parameters -+
"""

from __future__ import annotations

from collections.abc import Sequence

from veldt.config.gorila_settings import GorilaConfig
from veldt.exchange.gradients import GradientEdge, NoAllReduce
from veldt.exchange.graph import Groups
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.replay import ReplayEnds, ReplayIn
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.learning.checked_results import checked_exploration
from veldt.learning.learner import Learner
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.systems.gorila.server_optimiser import ServerOptimiser
from veldt.systems.roles.learner import LearnerPlan
from veldt.systems.roles.replay_learner import ReplayLearner


@flush_denormals()
def run_gorila_learner(
    control: Control,
    plan: LearnerPlan,
    replay: ReplayEnds,
    rate_limiter: RateLimiter,
    gradients: Sequence[Slots],
    parts: Sequence[Weights],
) -> None:
    """Entry point of the role: learns until it is asked to stop. The last edges go to all parameter shards, and from
    them."""
    _GorilaLearner(control, plan, replay.client(), rate_limiter, gradients, parts).run()


class _GorilaLearner(ReplayLearner):
    is_reporter = True  # the data it learns from are its own

    def __init__(
        self,
        control: Control,
        plan: LearnerPlan,
        client: ReplayIn,
        rate_limiter: RateLimiter,
        gradients: Sequence[Slots],
        parts: Sequence[Weights],
    ) -> None:
        self._gradients, self._parts = gradients, parts
        super().__init__(control, plan, None, client, rate_limiter)
        self._optimiser.begin()
        self._learner.updates = int(rate_limiter.updates_L[plan.rank])
        if control.restart_count:  # after a restart it has only the server's parameters
            self._learner.renew_targets()

    def source_metrics(self) -> dict[str, float]:
        settings, steps = self._plan.config.roles, self._rate_limiter.steps
        assert isinstance(settings, GorilaConfig)
        if settings.anneal_by == "updates":
            steps = self._off_policy.annealing_steps(steps, self._learner.version)
        exploration = checked_exploration(self._off_policy.exploration(steps), self._off_policy)
        return {**super().source_metrics(), **exploration, **self._optimiser.metrics()}

    def _make_learner(self, edge: GradientEdge) -> Learner:
        plan, settings = self._plan, self._plan.config.roles
        assert isinstance(settings, GorilaConfig)
        self._optimiser = optimiser = ServerOptimiser(
            self._parameters,
            self._algorithm.groups,
            self._gradients,
            self._parts,
            settings,
            self._control,
            plan.rank,
        )
        return Learner(
            self._algorithm,
            self._forward,
            self._parameters,
            edge,
            self._targets,
            optimiser,
            version_of=lambda own: optimiser.version,
            diagnostics=self._make_diagnostics(),
        )

    def _updates_before(self, edge: GradientEdge) -> int:
        return int(self._rate_limiter.updates_L[self._plan.rank])

    def _state(self) -> Groups:
        return {"target": self._learner.target_weights()} if self._plan.rank == 0 else {}

    def _gradient_edge(self) -> GradientEdge:
        return NoAllReduce()
