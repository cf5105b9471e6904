"""IMPALA: a learner that corrects for the policy lag of the unrolls it receives (Espeholt et al. 2018, figure 1).

  +------------ weights --------------+
  v                                   |
actors (envs, policy) ==unrolls==> learner (V-trace)
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from veldt.algorithms.policy_gradient import PolicyGradient
from veldt.config.impala_settings import ImpalaConfig
from veldt.exchange.graph import Edge, Graph, SlotsSpec
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.learning.normalisation import reward_gamma_of
from veldt.networks.recurrent import recurrent_size_of
from veldt.replay.size import check_memory
from veldt.runs.checkpoint_files import Checkpoint
from veldt.sampling.unrolls import unroll_layouts
from veldt.systems.impala.learner import ImpalaLearnerPlan, run_impala_learner
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import actors, evaluators, learners, weights_edge

_DEPTH = 2  # slots per actor: one is written while one is learned from; more would only make data older


def impala(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`."""
    config, spec, algorithm = run_plan.config, run_plan.spec, run_plan.algorithm()
    settings = config.roles
    assert isinstance(settings, ImpalaConfig) and isinstance(algorithm, PolicyGradient)
    envs = config.envs.num_envs
    width, steps = envs // settings.actors, run_plan.horizon
    unrolls = settings.batch_unrolls(envs)
    parameters = algorithm.distribution.num_parameters
    layouts = partial(
        unroll_layouts,
        spec,
        steps,
        parameters=parameters,
        recurrent_size=recurrent_size_of(run_plan.network()[0]),
        with_returns=reward_gamma_of(algorithm) is not None,
    )
    slot = layouts(width)
    edges = {
        "weights": weights_edge(run_plan),
        "rate_limiter": Edge(
            "learner",
            "actor",
            "counts of steps and updates",
            RateLimiterSpec(
                settings.actors,
                settings.learners,
                intensity=0.0,
                learning_starts=0,
                batch_size=steps * unrolls // settings.learners,
                slack=0.0,
                acts_on=settings.learners > 1,
            ),
        ),
    }
    if settings.drawn_slots(envs):
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
        run_plan,
        run_impala_learner,
        run,
        [{"weights": "weights", "slots": name, "rate_limiter": "rate_limiter"} for name in names],
        lambda **common: ImpalaLearnerPlan(**common, slot=slot, batch=layouts(share)),
    )
    # Each learner receives unrolls of its own: with fewer actors than learners, one learner would wait for ever.
    acting = actors(run_plan, steps, names, checkpoint, least=settings.learners)
    return Graph((learner, acting, *evaluators(run_plan, checkpoint)), edges)
