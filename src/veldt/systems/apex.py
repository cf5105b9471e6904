"""Ape-X: actors, a replay memory in shards, and a learner that never waits for data (Horgan et al. 2018, figure 1).

            +--------------------- weights ----------------------+
            v                                                    |
actors (simulators, policy) ==steps, first priorities==> shards ==batches==> learner
                                                           ^                   |
                                                           +--- priorities ----+
"""

from __future__ import annotations

from pathlib import Path

from veldt.algorithms.base import OffPolicy
from veldt.exchange.graph import Edge, Graph, PaceSpec, ReplaySpec, Role, SlotsSpec, WeightsSpec
from veldt.exchange.pace import check_slack, least_slack
from veldt.exchange.settings import ApexConfig
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.shared import Layout
from veldt.simulators.trajectory import row_layouts
from veldt.systems.actor import ActorPlan, run_actor
from veldt.systems.apex_learner import LearnerPlan, run_learner
from veldt.systems.assembly import Assembly
from veldt.systems.evaluator_role import EvaluatorPlan, run_evaluator
from veldt.systems.replay_shard import ShardPlan, batch_layouts, run_shard

_DEPTH = 3  # slots of each actor: one is written, one is stored, and one is ready
_RESTORE_S = 300.0  # a shard that begins in mid-run reads its memory from the disk
_COMPILE_S = 300.0  # the first update may compile the network
_EVALUATOR_WIDTH = 32
# Where cores are short, the learner goes before actors, which must wait for it anyway.
_ACTOR_NICENESS = 5


def apex(assembly: Assembly, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`.

    UsageError where its sizes cannot work.
    """
    config, spec, algorithm = assembly.config, assembly.spec, assembly.algorithm()
    settings = config.roles
    assert isinstance(settings, ApexConfig) and isinstance(algorithm, OffPolicy) and config.replay is not None
    simulators, actors, shards = config.simulation.num_simulators, settings.actors, settings.shards
    width = simulators // actors
    rows = settings.rows(width, algorithm.returns.steps)
    members = [range(shard, actors, shards) for shard in range(shards)]
    lives = checkpoint.meta["lives"] if checkpoint else {}
    keeps = run if config.run.checkpoint_replay == "full" else None
    least = least_slack(
        intensity=algorithm.intensity,
        batch=algorithm.batch,
        steps_at_once=simulators * rows,
        steps_kept_back=simulators * (algorithm.returns.steps + rows * _DEPTH),
    )
    if settings.insert_slack:
        check_slack(settings.insert_slack, least)
    weights = {name: Layout(array.shape, str(array.dtype)) for name, array in assembly.weights().items()}
    slot = row_layouts(spec, rows, width) | {"priority": Layout((rows, width), "float64")}
    edges = {
        "weights": Edge("learner", "actor", "weights, two copies that none waits for", WeightsSpec(weights)),
        "pace": Edge(
            "learner",
            "actor",
            f"counts of steps and samples: {algorithm.intensity:g} samples for each step",
            PaceSpec(
                actors,
                1,
                algorithm.intensity,
                algorithm.learning_starts,
                algorithm.batch,
                settings.insert_slack or 2 * least,
            ),
        ),
    }
    for shard in range(shards):
        edges[f"steps {shard}"] = Edge(
            "actor",
            "replay",
            f"slots of {rows} x {width} steps with first priorities, {_DEPTH} for each actor, full ones block",
            SlotsSpec(slot, len(members[shard]), _DEPTH),
        )
    edges["batches"] = Edge(
        "replay",
        "learner",
        f"batches of {algorithm.batch:,}, {settings.batches_ahead} ahead; new priorities back",
        ReplaySpec(
            batch_layouts(spec, algorithm.batch),
            algorithm.batch,
            settings.batches_ahead,
            tuple(f"steps {shard}" for shard in range(shards)),
        ),
    )
    learner = Role(
        "learner",
        f"learns on {config.run.device}, {config.run.threads} threads",
        run_learner,
        [LearnerPlan(config, spec, assembly.network_factory, settings.publish_every, run)],
        [("weights", "batches", "pace")],
        settings.restarts,
        _COMPILE_S,
        keeps=True,
    )
    replay = Role(
        "replay",
        f"stores {config.replay.replay_size // shards:,} transitions, draws, renews priorities",
        run_shard,
        [
            ShardPlan(
                config,
                spec,
                algorithm.returns,
                shard,
                shards,
                width * len(members[shard]),
                [width * place for place in range(len(members[shard]))],
                keeps,
            )
            for shard in range(shards)
        ],
        [(f"steps {shard}", "batches") for shard in range(shards)],
        settings.restarts,
        _RESTORE_S,
        keeps=keeps is not None,
    )
    actor = Role(
        "actor",
        f"acts in {width} simulators with a policy of its own",
        run_actor,
        [
            ActorPlan(
                config,
                assembly.source,
                spec,
                assembly.network_factory,
                number,
                number // shards,
                number * width,
                width,
                rows,
                settings.pull_every,
                lives.get(f"actor {number}", 0),
            )
            for number in range(actors)
        ],
        [("weights", f"steps {number % shards}", "pace") for number in range(actors)],
        settings.restarts,
        max(30.0, config.simulation.env_timeout),
        niceness=_ACTOR_NICENESS,
    )
    evaluator = Role(
        "evaluator",
        "plays games by the newest weights",
        run_evaluator,
        [
            EvaluatorPlan(
                config,
                assembly.source,
                spec,
                assembly.network_factory,
                simulators,
                _EVALUATOR_WIDTH,
                settings.evaluator_share,
                checkpoint.meta["evaluated_at"] if checkpoint else 0,
                lives.get("evaluator", 0),
            )
        ],
        [("weights", "pace")],
        settings.restarts,
        max(30.0, config.simulation.env_timeout),
    )
    has_evaluator = settings.evaluator_share > 0 or config.run.evaluate_every > 0
    return Graph((learner, replay, actor, *((evaluator,) if has_evaluator else ())), edges)
