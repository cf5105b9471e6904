"""What is refused before an experiment measures or writes anything."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from veldt.envs.arrangement import probe_spec
from veldt.envs.settings import AtariConfig
from veldt.envs.spec import ActionSpec, EnvSpec
from veldt.errors import UsageError
from veldt.experiments.experiment import Evaluation, Experiment, Job, Request, Training
from veldt.experiments.planning.kinds import kind_of, one_of_each_kind
from veldt.formatting import gib
from veldt.networks.own import NO_PARTS
from veldt.recipes.configure import configure
from veldt.runtime.system_memory import available_memory
from veldt.systems.planning.checks import check_request
from veldt.systems.planning.sizes import buffer_bytes, check_sizes


def check_installed(experiment: Experiment) -> None:
    """Raises UsageError if a module that the experiment needs is not installed."""
    for module, command in experiment.needs.items():
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                f"the experiment {experiment.name} needs {module}, which is not installed: {command}"
            )


def check_names(jobs: Sequence[Job]) -> None:
    """Raises UsageError if two jobs would write to the same place."""
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise UsageError(f"two runs would have the name {max(names, key=names.count)}")


def check_jobs(jobs: Sequence[Job], request: Request) -> dict[str, int]:
    """Returns the bytes of the full replay buffer of each kind of training; 0 without one.

    Raises UsageError where a run could not begin: its settings do not fit its environment, each other or this machine.
    """
    specs: dict[tuple[str, AtariConfig], EnvSpec] = {}
    buffers: dict[str, int] = {}
    for job in one_of_each_kind(jobs):
        run = configure(job.recipe, job.env, {}, None, NO_PARTS, job.settings)
        check_request(run, None)
        env = job.env, run.config.atari
        if env not in specs:
            specs[env] = probe_spec(run.source, run.config.atari)
        try:
            needed = buffers[kind_of(job)] = buffer_bytes(run.config, specs[env])
            _check_memory(job, needed, request)
            check_sizes(run.config, specs[env])
        except UsageError as error:
            # It does not say which of the experiment's recipes and environments it is about.
            raise UsageError(f"{job.recipe} on {job.env} cannot begin: {error}") from error
    return buffers


def check_starts(jobs: Sequence[Job]) -> None:
    """Raises UsageError where a run could not be evaluated from its starts: these are of other settings."""
    actions: dict[tuple[str, bool], ActionSpec] = {}
    for job in {(kind_of(job.of), job.of.env): job for job in jobs if isinstance(job, Evaluation)}.values():
        run = configure(job.of.recipe, job.of.env, {}, None, NO_PARTS, job.of.settings)
        atari = run.config.atari
        taken = run.source.name, atari.full_action_space
        if taken not in actions:  # the other settings do not change them
            actions[taken] = probe_spec(run.source, atari).action
        job.starts.content.refuse_other(run.source, atari, actions[taken])


def _check_memory(job: Training, needed: int, request: Request) -> None:
    """Raises UsageError if a replay buffer is too large: that of `check_sizes` names a flag that experiments lack."""
    available = available_memory()
    if needed <= available:
        return
    instead = ["free some", "take a machine that has more"]
    if job.recipe in request.recipes:
        instead.append(f"leave {job.recipe} out of --recipes")
    elif not request.is_small:
        instead.append("leave --scale paper out")
    raise UsageError(
        f"its replay buffer needs {gib(needed)} of memory, and {gib(available)} are available: "
        f"{', '.join(instead[:-1])} or {instead[-1]}"
    )
