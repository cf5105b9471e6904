"""The bundle of Gorila: an actor, a replay buffer and a learner in one (Nair et al. 2015, section 4).

    bundle: envs, sampler, batch source, learner --gradient--> parameter shards
                                                 <--newest parameters--

Bundles share only the parameters. When one dies, its episodes and its replay buffer are lost, and it restarts from the
parameter server.
"""

from __future__ import annotations

from collections.abc import Sequence

from veldt.algorithms.base import Algorithm, OffPolicy
from veldt.config.gorila_settings import GorilaConfig
from veldt.exchange.graph import Groups
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.networks.flat import FlatParameters
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.systems.gorila.server_optimiser import ServerOptimiser
from veldt.systems.roles.independent_learner import IndependentPlan, IndependentSamplerLearner
from veldt.systems.roles.sampler_learner import GroupContext


@flush_denormals()
def run_gorila_worker(
    control: Control,
    plan: IndependentPlan,
    rate_limiter: RateLimiter,
    gradients: Sequence[Slots],
    parts: Sequence[Weights],
) -> None:
    """Entry point: samples and learns until it is asked to stop. The edges are those to all shards, and from them."""
    _GorilaWorker(control, plan.placed(control.peers), rate_limiter, gradients, parts).run()


class _GorilaWorker(IndependentSamplerLearner):
    def __init__(
        self,
        control: Control,
        plan: IndependentPlan,
        rate_limiter: RateLimiter,
        gradients: Sequence[Slots],
        parts: Sequence[Weights],
    ) -> None:
        settings = plan.run_plan.config.roles
        assert isinstance(settings, GorilaConfig)
        self._settings, self._gradients, self._parts, self._acted = settings, gradients, parts, 0
        context = GroupContext(
            optimiser=self._optimiser_of,
            version_of=lambda own: self._optimiser.version,
            heartbeat=self._before_step,
            schedule=self._annealing_steps,
        )
        super().__init__(control, plan, rate_limiter, context)
        self._optimiser.begin()
        self.load_shared_parameters()

    def _optimiser_of(self, algorithm: Algorithm, parameters: FlatParameters) -> ServerOptimiser:
        self._optimiser = ServerOptimiser(
            parameters,
            algorithm.groups,
            self._gradients,
            self._parts,
            self._settings,
            self._control,
            self._rank,
        )
        return self._optimiser

    def _annealing_steps(self, steps: int) -> int:
        algorithm = self._sampler_learner.algorithm
        if self._settings.anneal_by == "updates" and isinstance(algorithm, OffPolicy):
            return algorithm.annealing_steps(steps, self._optimiser.version)
        return steps

    def _before_step(self) -> None:
        """Called before each step of a group of envs."""
        self._control.heartbeat()
        slot, groups = self._sampler_learner.slot, len(self._sampler_learner.envs.groups)
        self._acted += slot.width
        if self._acted >= self._settings.actor_sync_interval * groups:
            self._acted = 0
            self._optimiser.pull()
            self._sampler_learner.acts_by_newest()

    def after_phase(self) -> None:
        """There is nothing to publish: the shards have its gradients."""

    def before_snapshot(self) -> None:
        """There is nothing to flush."""

    def shared_groups(self, groups: Groups) -> Groups:
        return {}

    def exchange_metrics(self) -> dict[str, float]:
        return self._optimiser.metrics()
