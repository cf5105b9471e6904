"""Actors that fill a replay buffer in shards, from which learners sample: what Ape-X and Gorila share.

actors ==steps, first priorities==> replay shards ==batches==> learners
                                          ^                       |
                                          +----- priorities ------+
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veldt.algorithms.base import OffPolicy
from veldt.config.system_settings import ApexConfig
from veldt.envs.trajectory import row_layouts
from veldt.exchange.graph import Edge, ReplaySpec, Role, SlotsSpec
from veldt.exchange.rate_limiter import RateLimiterSpec, check_slack, least_slack
from veldt.replay.batch import batch_layouts
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.shared import Layout
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import actors
from veldt.systems.roles.replay_shard import ShardPlan, run_shard

_DEPTH = 3  # slots per actor: one is being written, one is being stored, and one is ready
_RESTORE_S = 300.0  # a shard that restarts reads its replay buffer from disk
_HUNG_S = 30.0  # without a heartbeat, after which a shard counts as hung


@dataclass(frozen=True)
class ReplayTopology:
    """The actors, the replay shards and the edges around them, without the learners and the weights edge.

    `batches` are the names of the edges that learners sample from, `edges` all edges but the weights.
    """

    edges: dict[str, Edge]
    batches: list[str]
    replay: Role
    actors: Role


def replay_topology(run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None) -> ReplayTopology:
    """See `ReplayTopology`; raises UsageError where the sizes cannot work."""
    config, spec, algorithm = run_plan.config, run_plan.spec, run_plan.algorithm()
    settings = config.roles
    assert isinstance(settings, ApexConfig) and isinstance(algorithm, OffPolicy) and config.replay is not None
    envs, count, shards = config.envs.num_envs, settings.actors, settings.shards
    width = envs // count
    rows = settings.rows(width, algorithm.returns.steps)
    members = [range(shard, count, shards) for shard in range(shards)]
    share = algorithm.batch_size // config.batch_shares
    slot = row_layouts(spec, rows, width) | {
        "priority": Layout((rows, width), "float64"),
        "is_first": Layout((), "bool"),
    }
    edges = {"rate_limiter": _rate_limiter_edge(settings, algorithm, share, envs, rows)}
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
    replay = _replay_role(run_plan, run, [width * len(part) for part in members], batches)
    acting = actors(run_plan, rows, [f"steps {shard}" for shard in range(shards)], checkpoint)
    return ReplayTopology(edges, batches, replay, acting)


def _rate_limiter_edge(settings: ApexConfig, algorithm: OffPolicy, share: int, envs: int, rows: int) -> Edge:
    """Returns the edge that keeps acting and learning at the training intensity.

    `share` are a learner's rows of each batch; slots have `rows` rows of the run's `envs` envs. UsageError if the
    tolerance is too small for them.
    """
    least = least_slack(
        intensity=algorithm.intensity,
        batch_size=share * settings.learners,
        steps_at_once=envs * rows,
        steps_kept_back=envs * (algorithm.returns.steps + rows * _DEPTH),
    )
    if settings.rate_limit_tolerance:
        check_slack(settings.rate_limit_tolerance, least)
    return Edge(
        "learner",
        "actor",
        f"counts of steps and samples: {algorithm.intensity:g} samples for each step",
        RateLimiterSpec(
            settings.actors,
            settings.learners,
            intensity=algorithm.intensity,
            learning_starts=algorithm.learning_starts,
            batch_size=share,
            slack=settings.rate_limit_tolerance or 2 * least,
            together=settings.is_synchronised,
        ),
    )


def _replay_role(run_plan: RunPlan, run: Path | None, envs: list[int], batches: list[str]) -> Role:
    """Returns the shards of the buffer; `envs` are how many each stores the steps of."""
    config, algorithm, shards = run_plan.config, run_plan.algorithm(), len(envs)
    settings = config.roles
    assert isinstance(settings, ApexConfig) and isinstance(algorithm, OffPolicy) and config.replay is not None
    width = config.envs.num_envs // settings.actors
    checkpoint_run = run if config.run.checkpoint_replay == "full" else None
    return Role(
        "replay",
        f"stores {config.replay.buffer_size // shards:,} transitions, draws, renews priorities",
        run_shard,
        [
            ShardPlan(
                config,
                run_plan.spec,
                algorithm.returns,
                number=shard,
                shards=shards,
                width=envs[shard],
                first=range(0, envs[shard], width),
                run=checkpoint_run,
                insertions=settings.insertions,
            )
            for shard in range(shards)
        ],
        [{"slots": f"steps {shard}", "batches": tuple(batches)} for shard in range(shards)],
        settings.max_restarts,
        _HUNG_S,
        num_checkpointed=0 if checkpoint_run is None else shards,
        startup_timeout_s=_RESTORE_S,
    )
