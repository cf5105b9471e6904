"""Trains by a run plan: builds the system's graph, chooses the runtime that runs it, and starts the run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import torch

from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import TrainConfig
from veldt.errors import UsageError, VeldtError
from veldt.exchange.graph import Graph
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.directory import RunDirectory
from veldt.runs.resume_hint import how_to_go_on
from veldt.runtime.activity import training_in
from veldt.runtime.devices import choose_device
from veldt.systems.driver.local_runtime import start_inline, start_local
from veldt.systems.driver.outcome import Outcome
from veldt.systems.driver.restart_policy import run_restarting
from veldt.systems.driver.training_run import RestartHistory, StartRoles, TrainingRun
from veldt.systems.planning.run_plan import RunPlan
from veldt.tracking.recording import Recording


def graph_of(run_plan: RunPlan) -> Graph:
    """Returns the roles of a new run, and their edges."""
    graph: Graph = SYSTEMS[run_plan.config.system].load_graph()(run_plan)
    return graph


@contextlib.contextmanager
def runtime(config: TrainConfig, cluster: str | None) -> Iterator[StartRoles]:
    """Yields what runs a graph: this process, others of this machine, or a cluster, connected until the block ends."""
    if cluster is None and config.in_one_process:
        yield start_inline
        return
    if cluster is None:
        devices = torch.cuda.device_count() if choose_device(config.run.device).type == "cuda" else 0
        if 0 < devices < config.roles.learners and config.batch_shares > 1:
            raise UsageError(
                f"--learners is {config.roles.learners}, and there are {devices} accelerators: learners that exchange "
                "gradients need one each; take fewer, or --device cpu"
            )
        yield start_local
        return
    if why := config.roles.cluster_refusal:
        raise UsageError(
            f"--cluster is '{cluster}', and {config.recipe} cannot run there: {why}; leave --cluster out, or take a "
            f"recipe of several processes that share no memory"
        )
    from veldt.runtime.on_ray.cluster import connected

    with connected(cluster) as joined:
        from veldt.systems.driver.ray_runtime import start_on_ray

        yield partial(start_on_ray, joined)


def run_system(
    run_plan: RunPlan,
    directory: RunDirectory,
    recording: Recording,
    checkpoint: Checkpoint | None,
    start_roles: StartRoles,
) -> Outcome:
    """Trains to the end, from the start or resumed from `checkpoint`. An error notes how to resume, if possible."""
    config = run_plan.config

    def begin(checkpoint: Checkpoint | None, lost: RestartHistory | None = None) -> TrainingRun:
        make_graph = SYSTEMS[config.system].load_graph()
        return TrainingRun(make_graph, run_plan, directory, recording, checkpoint, start_roles, lost)

    try:
        with training_in(str(directory.path)):
            if config.roles.resumes_as_a_whole:
                return run_restarting(begin, checkpoint, directory.path, config.roles.max_restarts)
            return begin(checkpoint).run()
    except VeldtError as error:
        if note := how_to_go_on(directory.path):
            error.add_note(note)
        raise
