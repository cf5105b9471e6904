"""Roles and edges that the graphs of several systems share."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from veldt.config.system_settings import ActorsConfig
from veldt.config.train_config import TrainConfig
from veldt.exchange.graph import Edge, Role, WeightsSpec, Wiring, role_name
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.formatting import counted
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.own_names import RENDEZVOUS
from veldt.runtime.shared import Layout
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.actor import ActorPlan, run_actor
from veldt.systems.roles.evaluator import EvaluatorPlan, run_evaluator
from veldt.systems.roles.learner import LearnerPlan

_COMPILE_S = 300.0  # deadline: an update may compile the network
_UPDATE_S = 60.0  # deadline of a large update of a large network, beside other work
RENDEZVOUS_S = 300.0  # learners wait for each other at the start
# Where cores are short, learning has priority over acting, which must wait for it anyway.
ACTING_NICENESS = 10


def weights_edge(
    run_plan: RunPlan, target: str = "actor", source: str = "learner", writer: int | None = None
) -> Edge:
    """Returns the edge of weights from the learner to all that act; graphs draw it to `target`. `writer` as in Edge."""
    layouts = {name: Layout(array.shape, str(array.dtype)) for name, array in run_plan.weights().items()}
    return Edge(source, target, "weights, two copies that none waits for", WeightsSpec(layouts), writer)


def counts_edge(learners: int, batch: int) -> Edge:
    """Returns the edge by which sampler-learners count their steps and updates, of `batch` rows (0: it varies)."""
    spec = RateLimiterSpec.free(learners, learners, batch)
    return Edge("learner", "learner", "counts of steps and updates", spec)


def rendezvous_file(run: Path | None) -> Path:
    """Returns a new file name at which the learners of this start meet."""
    return (run or Path(tempfile.gettempdir())) / f"{RENDEZVOUS}{uuid.uuid4().hex}"


def learners(
    run_plan: RunPlan,
    entry: Callable[..., None],
    run: Path | None,
    edges: Sequence[Wiring],
    make_plan: Callable[..., LearnerPlan] = LearnerPlan,
) -> Role:
    """Returns the role of the configured learners; `make_plan` gets the fields that all plans share by keyword."""
    config = run_plan.config
    assert isinstance(config.roles, ActorsConfig)
    count, threads, rendezvous = config.roles.learners, config.run.threads, rendezvous_file(run)
    plans = [
        make_plan(
            config=config,
            spec=run_plan.spec,
            network=run_plan.own_parts_for_roles,
            publish_every=config.roles.publish_every,
            run=run,
            rank=rank,
            world_size=count,
            rendezvous_file=rendezvous,
        )
        for rank in range(count)
    ]
    return Role(
        "learner",
        f"learns on {config.run.device}, {counted(threads, 'thread', 'threads')}",
        entry,
        plans,
        edges,
        config.roles.max_restarts,
        _COMPILE_S if config.run.compiles else _UPDATE_S,
        num_checkpointed=1,  # all have the same state
        resumes_from="the checkpoint of step {step:,}",
        is_synchronised=True,
        startup_timeout_s=RENDEZVOUS_S,
        gpus=run_plan.gpus_of_learner,
    )


def actors(
    run_plan: RunPlan, steps: int, slots: Sequence[str], checkpoint: Checkpoint | None, least: int = 1
) -> Role:
    """Returns the role of the configured actors, which hand over `steps` rows at once to the edges `slots` in turn.

    `least` is the minimum of actors with which the system works (see `Role`).
    """
    config = run_plan.config
    assert isinstance(config.roles, ActorsConfig)
    envs, count = config.envs.num_envs, config.roles.actors
    width, incarnations = envs // count, incarnations_of(checkpoint)
    plans = [
        ActorPlan(
            config,
            run_plan.source,
            run_plan.spec,
            run_plan.own_parts_for_roles,
            number=number,
            ring=number // len(slots),
            first=number * width,
            width=width,
            steps=steps,
            actor_sync_interval=config.roles.actor_sync_interval,
            incarnations=incarnations.get(role_name("actor", number, count), 0),
        )
        for number in range(count)
    ]
    return Role(
        "actor",
        f"acts in {width} envs with a policy of its own",
        run_actor,
        plans,
        [
            {"weights": "weights", "slots": slots[number % len(slots)], "rate_limiter": "rate_limiter"}
            for number in range(count)
        ],
        config.roles.max_restarts,
        acting_deadline_s(config),
        niceness=ACTING_NICENESS,
        least=least,
    )


def evaluators(
    run_plan: RunPlan, checkpoint: Checkpoint | None, weights: str = "weights"
) -> tuple[Role, ...]:
    """Returns the role of the evaluator, if the configuration asks for any evaluation; `weights` names its edge."""
    config = run_plan.config
    share = config.roles.part_for_evaluator
    if share == 0 and config.run.evaluate_every == 0:
        return ()
    plan = EvaluatorPlan(
        config,
        run_plan.source,
        run_plan.spec,
        run_plan.own_parts_for_roles,
        first=config.envs.num_envs,
        width=config.envs.num_envs,
        share=share,
        evaluated_at=checkpoint.meta["evaluated_at"] if checkpoint else 0,
        incarnations=incarnations_of(checkpoint).get("evaluator", 0),
    )
    role = Role(
        "evaluator",
        "plays episodes by the newest weights",
        run_evaluator,
        [plan],
        [{"weights": weights, "rate_limiter": "rate_limiter"}],
        config.roles.max_restarts,
        acting_deadline_s(config),
        least=0,
    )
    return (role,)


def acting_deadline_s(config: TrainConfig) -> float:
    """Seconds without a heartbeat after which a role that only acts counts as hung: one step may take `env_timeout`."""
    return max(30.0, config.envs.env_timeout)


def sampler_learner_deadline_s(config: TrainConfig) -> float:
    """Seconds without a heartbeat after which a sampler-learner counts as hung: it may wait for another's envs."""
    return config.envs.env_timeout + (_COMPILE_S if config.run.compiles else _UPDATE_S)


def incarnations_of(checkpoint: Checkpoint | None) -> dict[str, int]:
    """Returns the number of each role's next incarnation by its name; a role that is missing begins with 0."""
    return checkpoint.meta["incarnations"] if checkpoint else {}
