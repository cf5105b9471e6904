"""Ape-X: actors, a replay buffer in shards, and a learner that never waits for data (Horgan et al. 2018, figure 1).

  +-------------------- weights -------------------------------------------------+
  v                                                                              |
actors (envs, policy) ==steps, first priorities==> replay shards ==batches==> learner
                                                         ^                       |
                                                         +----- priorities ------+
"""

from __future__ import annotations

from pathlib import Path

from veldt.exchange.graph import Graph
from veldt.runs.checkpoint_files import Checkpoint
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import evaluators, learners, weights_edge
from veldt.systems.roles.replay_learner import run_replay_learner
from veldt.systems.roles.replay_topology import replay_topology


def apex(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`.

    Raises UsageError where the sizes cannot work.
    """
    topology = replay_topology(run_plan, run, checkpoint)
    edges = {"weights": weights_edge(run_plan), **topology.edges}
    learning = [
        {"weights": "weights", "replay": name, "rate_limiter": "rate_limiter"} for name in topology.batches
    ]
    learner = learners(run_plan, run_replay_learner, run, learning)
    return Graph((learner, topology.replay, topology.actors, *evaluators(run_plan, checkpoint)), edges)
