"""IMPALA: a learner that corrects for the age of the unrolls it is sent (Espeholt et al. 2018, figure 1).

+-------------- weights --------------+
v                                     |
actors (simulators, policy) ==unrolls==> learner (V-trace)
"""

from __future__ import annotations

from pathlib import Path

from veldt.algorithms.vtrace import VTrace
from veldt.config.system_settings import ImpalaConfig
from veldt.exchange.graph import Edge, Graph, SlotsSpec
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.networks.recurrent import recurrent_size_of
from veldt.replay.size import check_memory
from veldt.runs.checkpoint_files import Checkpoint
from veldt.sampling.unrolls import unroll_layouts
from veldt.systems.impala.learner import ImpalaLearnerPlan, run_impala_learner
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import actors, evaluators, learners, weights_edge

_DEPTH = 2  # slots of each actor: one is written while one is learned from; more would only be older


def impala(assembly: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`."""
    config, spec, algorithm = assembly.config, assembly.spec, assembly.algorithm()
    settings = config.roles
    assert isinstance(settings, ImpalaConfig) and isinstance(algorithm, VTrace)
    simulators = config.simulation.num_simulators
    width, steps = simulators // settings.actors, assembly.horizon
    unrolls = settings.batch_unrolls(simulators)
    parameters, memory = algorithm.distribution.parameters, recurrent_size_of(assembly.network()[0])
    slot = unroll_layouts(spec, steps, width, parameters, memory)
    edges = {
        "weights": weights_edge(assembly),
        "pace": Edge(
            "learner",
            "actor",
            "counts of steps and updates",
            RateLimiterSpec(
                settings.actors,
                settings.learners,
                intensity=0.0,
                starts=0,
                batch=steps * unrolls // settings.learners,
                slack=0.0,
                acts_on=settings.learners > 1,
            ),
        ),
    }
    if settings.drawn_slots(simulators):
        each = sum(layout.nbytes for layout in slot.values()) / width * settings.learners
        check_memory("--replay-unrolls", settings.replay_unrolls, settings.replay_unrolls * each, each)
    names = [f"unrolls {rank}" for rank in range(settings.learners)]
    for rank, name in enumerate(names):
        edges[name] = Edge(
            "actor",
            "learner",
            f"unrolls of {steps} x {width} steps with the policy that acted, {_DEPTH} for each actor, full ones block",
            SlotsSpec(slot, len(range(rank, settings.actors, settings.learners)), _DEPTH),
        )
    share = unrolls // settings.learners
    learner = learners(
        assembly,
        run_impala_learner,
        run,
        [("weights", name, "pace") for name in names],
        lambda **common: ImpalaLearnerPlan(
            **common, slot=slot, batch=unroll_layouts(spec, steps, share, parameters, memory)
        ),
    )
    # Each learner is sent unrolls of its own: with fewer actors than learners, one of them would wait for ever.
    acting = actors(assembly, steps, names, checkpoint, least=settings.learners)
    return Graph((learner, acting, *evaluators(assembly, checkpoint)), edges)
