"""Ape-X: actors, a replay memory in shards, and a learner that never waits for data (Horgan et al. 2018, figure 1).

            +--------------------- weights ----------------------+
            v                                                    |
actors (simulators, policy) ==steps, first priorities==> shards ==batches==> learner
                                                           ^                   |
                                                           +--- priorities ----+
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veldt.algorithms.base import OffPolicy
from veldt.exchange.graph import Edge, Graph, ReplaySpec, Role, SlotsSpec
from veldt.exchange.pace import PaceSpec, check_slack, least_slack
from veldt.exchange.settings import ApexConfig
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.shared import Layout
from veldt.simulators.trajectory import row_layouts
from veldt.systems.apex_learner import run_apex_learner
from veldt.systems.assembly import Assembly
from veldt.systems.common_roles import actors, evaluators, learners, weights_edge
from veldt.systems.replay_shard import ShardPlan, batch_layouts, run_shard

_DEPTH = 3  # slots of each actor: one is written, one is stored, and one is ready
_RESTORE_S = 300.0  # a shard that begins in mid-run reads its memory from the disk
_HUNG_S = 30.0


def apex(assembly: Assembly, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`.

    UsageError where its sizes cannot work.
    """
    between = between_actors_and_learners(assembly, run, checkpoint)
    edges = {"weights": weights_edge(assembly), **between.edges}
    learning = [("weights", name, "pace") for name in between.batches]
    learner = learners(assembly, run_apex_learner, run, learning)
    return Graph((learner, between.replay, between.actors, *evaluators(assembly, checkpoint)), edges)


@dataclass(frozen=True)
class Between:
    """Of a system whose learners draw from what actors have stored: all but the learners, and their weights' way.

    `batches` are the names of the learners' edges, `edges` those of all but the weights.
    """

    edges: dict[str, Edge]
    batches: list[str]
    replay: Role
    actors: Role


def between_actors_and_learners(
    assembly: Assembly, run: Path | None, checkpoint: Checkpoint | None
) -> Between:
    """See `Between`; UsageError where its sizes cannot work."""
    config, spec, algorithm = assembly.config, assembly.spec, assembly.algorithm()
    settings = config.roles
    assert isinstance(settings, ApexConfig) and isinstance(algorithm, OffPolicy) and config.replay is not None
    simulators, count, shards = config.simulation.num_simulators, settings.actors, settings.shards
    width = simulators // count
    rows = settings.rows(width, algorithm.returns.steps)
    members = [range(shard, count, shards) for shard in range(shards)]
    keeps = run if config.run.checkpoint_replay == "full" else None
    share = algorithm.batch // config.batch_shares
    least = least_slack(
        intensity=algorithm.intensity,
        batch=share * settings.learners,
        steps_at_once=simulators * rows,
        steps_kept_back=simulators * (algorithm.returns.steps + rows * _DEPTH),
    )
    if settings.insert_slack:
        check_slack(settings.insert_slack, least)
    slot = row_layouts(spec, rows, width) | {"priority": Layout((rows, width), "float64")}
    edges = {
        "pace": Edge(
            "learner",
            "actor",
            f"counts of steps and samples: {algorithm.intensity:g} samples for each step",
            PaceSpec(
                count,
                settings.learners,
                algorithm.intensity,
                algorithm.learning_starts,
                share,
                settings.insert_slack or 2 * least,
                together=settings.together,
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
    batches = [f"batches {rank}" for rank in range(settings.learners)]
    for name in batches:
        edges[name] = Edge(
            "replay",
            "learner",
            f"batches of {share:,}, {settings.batches_ahead} ahead; new priorities back",
            ReplaySpec(
                batch_layouts(spec, share),
                share,
                settings.batches_ahead,
                tuple(f"steps {shard}" for shard in range(shards)),
            ),
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
        [(f"steps {shard}", *batches) for shard in range(shards)],
        settings.restarts,
        _HUNG_S,
        keeps=0 if keeps is None else shards,
        begin_s=_RESTORE_S,
    )
    acting = actors(assembly, rows, [f"steps {shard}" for shard in range(shards)], checkpoint)
    return Between(edges, batches, replay, acting)
