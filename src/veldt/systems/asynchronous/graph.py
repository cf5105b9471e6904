"""Asynchronous learners on a central store (Mnih et al. 2016; Stooke & Abbeel, sections 4.3 and 5.2).

    sampler-learner: envs, sampler, batch source, learner --gradient--> central store in chunks:
                                                          <--parameters--  parameters, rule's state

Each sampler-learner learns from batches of its own, and applies its gradients to the shared parameters, which the
others update meanwhile. When one dies, only its episodes are lost: it restarts from the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veldt.algorithms.base import Algorithm
from veldt.config.asynchronous_settings import AsynchronousConfig
from veldt.errors import UsageError
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.graph import Edge, Graph, Role
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.shared_statistics import SharedStatistics, SharedStatisticsSpec
from veldt.exchange.weights import Weights
from veldt.functional.moments import Moments
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.learning.learner import by_parameter_name, load_state, load_weights, state_by_parameter_name
from veldt.learning.normalisation import reward_gamma_of
from veldt.learning.optimiser import GroupedRule
from veldt.learning.running_statistics import OBSERVATIONS, REWARDS, SharedRunningStatistics, numbers_of
from veldt.learning.snapshot import Groups
from veldt.networks.flat import FlatParameters
from veldt.networks.normaliser import normaliser_of
from veldt.networks.precision import Network
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import (
    counts_edge,
    evaluators,
    sampler_learner_deadline_s,
    weights_edge,
)
from veldt.systems.roles.independent_learner import (
    IndependentPlan,
    IndependentSamplerLearner,
    independent_plans,
)
from veldt.systems.roles.sampler_learner import GroupContext
from veldt.systems.roles.sampler_learner_role import SyncState

_STATISTICS = "statistics"  # of a learner's state in checkpoints: those of all learners
_MARGIN_S = 60.0  # beyond the deadline: a learner silent for so long was killed, and its chunk is free


def asynchronous(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`."""
    config = run_plan.config
    settings = config.roles
    assert isinstance(settings, AsynchronousConfig)
    count, width = settings.learners, config.phase_width
    initial = _initial(run_plan, checkpoint)
    if settings.own_counts and all(value.ndim for value in initial.values()):
        raise UsageError(
            "--own-counts would have no effect: the update rule counts no updates, as only Adam does; leave it out"
        )
    rows = run_plan.algorithm().update_rows(width)
    evaluator_roles = evaluators(run_plan, checkpoint)
    network, parameters = run_plan.network()
    tensors = len(parameters.names)
    if settings.chunks > tensors:
        raise UsageError(
            f"--chunks is {settings.chunks:,}, and the network has {tensors} tensors: take fewer chunks"
        )
    edges = {
        "rate_limiter": counts_edge(count, rows),
        "store": Edge(
            "learner",
            "learner",
            f"parameters and the rule's state, in {settings.chunks} chunks with a lock each",
            CentralStoreSpec(initial, settings.chunks, sampler_learner_deadline_s(config) + _MARGIN_S),
        ),
    }
    statistics = _initial_statistics(run_plan, network, checkpoint)
    if statistics:
        edges["statistics"] = Edge(
            "learner",
            "learner",
            "running statistics of all learners' data",
            SharedStatisticsSpec(statistics, sampler_learner_deadline_s(config) + _MARGIN_S),
        )
    if evaluator_roles:
        edges["weights"] = weights_edge(run_plan, "evaluator")
    learner = Role(
        "learner",
        f"acts in {width} envs, learns from batches of its own, and brings its gradients to the store",
        run_asynchronous_learner,
        independent_plans(run_plan, run, checkpoint),
        [{name: name for name in edges}] * count,
        settings.max_restarts,
        sampler_learner_deadline_s(config),
        num_checkpointed=count,
        resumes_from="the central store",
        gpus=run_plan.gpus_of_learner,
    )
    return Graph((learner, *evaluator_roles), edges)


def _initial(run_plan: RunPlan, checkpoint: Checkpoint | None) -> Mapping[str, np.ndarray]:
    """Returns the store's initial values: parameters and the rule's state, from the checkpoint if there is one."""
    parameters = run_plan.shared_parameters()
    state = GroupedRule(run_plan.algorithm().groups, parameters).state(parameters.fp32_params)
    if checkpoint is not None:
        load_weights(parameters, checkpoint.groups["weights"])
        load_state(parameters, state, checkpoint.groups["optimiser"])
    values = {PARAMETERS: parameters.fp32_params, **state}
    return {name: value.numpy() for name, value in values.items()}


def _initial_statistics(
    run_plan: RunPlan, network: Network, checkpoint: Checkpoint | None
) -> dict[str, np.ndarray]:
    """Returns the statistics that the run normalises by, from the checkpoint if there is one; {}: it does not."""
    moments = {}
    if (normaliser := normaliser_of(network)) is not None:
        moments[OBSERVATIONS] = normaliser.moments()
    if reward_gamma_of(run_plan.algorithm()) is not None:
        moments[REWARDS] = [Moments.none(())]
    saved = {} if checkpoint is None else checkpoint.meta["learners"]["0"].get(_STATISTICS, {})
    return {name: np.array(saved.get(name, numbers_of(new))) for name, new in moments.items()}


@flush_denormals()
def run_asynchronous_learner(
    control: Control,
    plan: IndependentPlan,
    rate_limiter: RateLimiter,
    store: CentralStore,
    weights: Weights | None = None,
    statistics: SharedStatistics | None = None,
) -> None:
    """Entry point of the role: samples and learns until it is asked to stop."""
    placed = plan.placed(control.peers)
    _AsynchronousLearner(control, placed, rate_limiter, store, weights, statistics).run()


class _AsynchronousLearner(IndependentSamplerLearner):
    def __init__(
        self,
        control: Control,
        plan: IndependentPlan,
        rate_limiter: RateLimiter,
        store: CentralStore,
        weights: Weights | None,
        statistics: SharedStatistics | None = None,
    ) -> None:
        rank, settings = plan.rank, plan.run_plan.config.roles
        assert isinstance(settings, AsynchronousConfig)
        self._settings, self._weights, self._rows = settings, weights, 0
        self._statistics = statistics
        self._store_client = store.client(rank, control.heartbeat)
        self._others = 0  # updates by other sampler-learners that its parameters include
        context = GroupContext(
            statistics=None if statistics is None else SharedRunningStatistics(statistics, control.heartbeat),
            optimiser=self._optimiser_of,
            version_of=lambda own: own + self._others,
            heartbeat=self._before_step,
        )
        super().__init__(control, plan, rate_limiter, context)
        self._optimiser.pull()
        self._sampler_learner.load_statistics()
        self.load_shared_parameters()

    def _optimiser_of(self, algorithm: Algorithm, parameters: FlatParameters) -> CentralOptimiser:
        self._optimiser = CentralOptimiser(
            algorithm,
            parameters,
            self._store_client,
            self._settings.local_steps,
            self._count_others,
            own_moments=self._settings.own_moments,
            count_share=1 / self._settings.learners if self._settings.own_counts else None,
        )
        return self._optimiser

    def _count_others(self) -> None:
        updates_L = self._rate_limiter.updates_L
        self._others = int(updates_L.sum() - updates_L[self._rank])

    def _before_step(self) -> None:
        """Called before each step of a group of envs."""
        self._control.heartbeat()
        self._rows += 1
        if (interval := self._settings.actor_sync_interval) and self._rows % (
            interval * len(self._sampler_learner.envs.groups)
        ) == 0:
            self._optimiser.catch_up()
            self._sampler_learner.acts_by_newest()

    def after_phase(self) -> None:
        self.publish(self._weights)

    def before_snapshot(self) -> None:
        self._optimiser.exchange()
        self._sampler_learner.load_statistics()

    def _state_besides(self, now: SyncState) -> dict[str, Any]:
        state = super()._state_besides(now)
        if self._statistics is not None and self._rank == 0:
            state[_STATISTICS] = self._statistics.values(self._control.heartbeat)
        return state

    def shared_groups(self, groups: Groups) -> Groups:
        values = {name: torch.from_numpy(array) for name, array in self._store_client.copied().items()}
        parameters = self._sampler_learner.parameters
        weights = groups["weights"] | by_parameter_name(parameters, values.pop(PARAMETERS))
        return {"weights": weights, "optimiser": state_by_parameter_name(parameters, values)}

    def exchange_metrics(self) -> dict[str, float]:
        return {
            "system/store_blocked_seconds": self._store_client.blocked_s,
            "system/store_updating_seconds": self._store_client.updating_s,
        }
