"""IMPALA: a learner that corrects for the age of the unrolls it is sent (Espeholt et al. 2018, figure 1).

+-------------- weights --------------+
v                                     |
actors (simulators, policy) ==unrolls==> learner (V-trace)
"""

from __future__ import annotations

from pathlib import Path

from veldt.algorithms.vtrace import VTrace
from veldt.exchange.graph import Edge, Graph, PaceSpec, Role, SlotsSpec
from veldt.exchange.settings import ImpalaConfig
from veldt.networks.recurrent import memory_of
from veldt.runs.checkpoint_files import Checkpoint
from veldt.systems.assembly import Assembly
from veldt.systems.common_roles import actors, evaluators, learner_gpus, weights_edge
from veldt.systems.impala_learner import ImpalaLearnerPlan, run_impala_learner
from veldt.systems.unrolls import unroll_layouts

_DEPTH = 2  # slots of each actor: one is written while one is learned from; more would only be older
_COMPILE_S = 300.0  # the first update may compile the network


def impala(assembly: Assembly, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`."""
    config, spec, algorithm = assembly.config, assembly.spec, assembly.algorithm()
    settings = config.roles
    assert isinstance(settings, ImpalaConfig) and isinstance(algorithm, VTrace)
    simulators = config.simulation.num_simulators
    width, steps = simulators // settings.actors, assembly.horizon
    unrolls = settings.batch_unrolls(simulators)
    parameters, memory = algorithm.distribution.parameters, memory_of(assembly.network()[0])
    slot = unroll_layouts(spec, steps, width, parameters, memory)
    edges = {
        "weights": weights_edge(assembly),
        "pace": Edge(
            "learner",
            "actor",
            "counts of steps and updates",
            PaceSpec(settings.actors, 1, 0.0, 0, steps * unrolls, 0.0),
        ),
        "unrolls": Edge(
            "actor",
            "learner",
            f"unrolls of {steps} x {width} steps with the policy that acted, {_DEPTH} for each actor, full ones block",
            SlotsSpec(slot, settings.actors, _DEPTH),
        ),
    }
    learner = Role(
        "learner",
        f"learns from {unrolls} unrolls of {steps} on {config.run.device}, {config.run.threads} threads",
        run_impala_learner,
        [
            ImpalaLearnerPlan(
                config,
                spec,
                assembly.network_factory,
                settings.publish_every,
                run,
                slot=slot,
                batch=unroll_layouts(spec, steps, unrolls, parameters, memory),
            )
        ],
        [("weights", "unrolls", "pace")],
        settings.restarts,
        _COMPILE_S,
        keeps=True,
        gpus=learner_gpus(assembly),
    )
    acting = actors(assembly, steps, ["unrolls"], checkpoint)
    return Graph((learner, acting, *evaluators(assembly, checkpoint)), edges)
