"""Gorila: learners send gradients to a parameter server in shards (Nair et al. 2015, figure 2).

    bundle: envs, replay buffer, learner --gradient--> parameter shard 0: parameters, rule's state
                                         --gradient--> parameter shard 1: ...
                                         <--newest parameters-- both

Without bundles (--actors), actors, the replay buffer and learners are separate roles as in Ape-X; but each learner
draws batches of its own, and actors too pull their weights from the shards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from veldt.config.gorila_settings import GorilaConfig
from veldt.exchange.graph import Edge, Graph, Role, Wiring
from veldt.exchange.parameter_partition import ShardedWeights
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.roles import Control
from veldt.systems.gorila.learner import run_gorila_learner
from veldt.systems.gorila.parameter_server import ParameterServer, parameter_server
from veldt.systems.gorila.worker import run_gorila_worker
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.actor import ActorPlan, run_actor
from veldt.systems.roles.evaluator import EvaluatorPlan, run_evaluator
from veldt.systems.roles.graph_parts import (
    counts_edge,
    evaluators,
    learners,
    sampler_learner_deadline_s,
)
from veldt.systems.roles.independent_learner import independent_plans
from veldt.systems.roles.replay_topology import replay_topology

_RESUMES_FROM = "the parameter server"


def gorila(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`.

    Raises UsageError where the sizes cannot work.
    """
    settings = run_plan.config.roles
    assert isinstance(settings, GorilaConfig)
    server = parameter_server(run_plan, run, "actor" if settings.actors else "learner")
    (learner, *acting), edges = (_separate if settings.actors else _colocated)(
        run_plan, run, checkpoint, server
    )
    evaluator_roles = [
        dataclasses.replace(
            role, entry=run_gorila_evaluator, edges=[{"rate_limiter": "rate_limiter", "parts": server.parts}]
        )
        for role in evaluators(run_plan, checkpoint)
    ]
    roles = (learner, server.role, *acting, *evaluator_roles)
    return Graph(roles, {**server.edges, **edges}, server.whole)


def _separate(
    run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None, server: ParameterServer
) -> tuple[list[Role], dict[str, Edge]]:
    """Returns separate roles and their edges: each learner draws batches of its own from what actors have stored."""
    settings = run_plan.config.roles
    assert isinstance(settings, GorilaConfig)
    topology = replay_topology(run_plan, run, checkpoint)
    learning = [{"replay": batches, **_exchanging(server)} for batches in topology.batches]
    learner = dataclasses.replace(
        learners(run_plan, run_gorila_learner, run, learning),
        is_synchronised=False,
        num_checkpointed=settings.learners,
        resumes_from=_RESUMES_FROM,
    )
    by_updates = settings.anneal_by == "updates"
    actor = dataclasses.replace(
        topology.actors,
        entry=run_gorila_actor,
        plans=[dataclasses.replace(plan, anneals_by_updates=by_updates) for plan in topology.actors.plans],
        edges=[
            {"slots": wiring["slots"], "rate_limiter": "rate_limiter", "parts": server.parts}
            for wiring in topology.actors.edges
        ],
    )
    return [learner, topology.replay, actor], topology.edges


def _colocated(
    run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None, server: ParameterServer
) -> tuple[list[Role], dict[str, Edge]]:
    """Returns bundles and their edges: each learner acts in its own envs and has its own replay buffer."""
    config = run_plan.config
    count, width = config.roles.learners, config.phase_width
    rows = run_plan.algorithm().update_rows(width)
    learner = Role(
        "learner",
        f"acts in {width} envs, keeps what it has seen, and learns from batches of its own",
        run_gorila_worker,
        independent_plans(run_plan, run, checkpoint),
        [_exchanging(server)] * count,
        config.roles.max_restarts,
        sampler_learner_deadline_s(config),
        num_checkpointed=count,
        resumes_from=_RESUMES_FROM,
        gpus=run_plan.gpus_of_learner,
    )
    return [learner], {"rate_limiter": counts_edge(count, rows)}


def _exchanging(server: ParameterServer) -> Wiring:
    """Returns the edges of a role that exchanges gradients and parameters with all shards."""
    return {"rate_limiter": "rate_limiter", "gradients": server.gradients, "parts": server.parts}


def run_gorila_actor(
    control: Control, plan: ActorPlan, slots: Slots, rate_limiter: RateLimiter, parts: Sequence[Weights]
) -> None:
    """Entry point of the role: acts with the shards' newest parameters until it is asked to stop."""
    run_actor(control, plan, ShardedWeights(parts), slots, rate_limiter)


def run_gorila_evaluator(
    control: Control, plan: EvaluatorPlan, rate_limiter: RateLimiter, parts: Sequence[Weights]
) -> None:
    """Entry point of the role: plays with the shards' newest parameters until it is asked to stop."""
    run_evaluator(control, plan, ShardedWeights(parts), rate_limiter)
