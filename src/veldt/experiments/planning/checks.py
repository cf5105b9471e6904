"""What is refused before an experiment measures or writes anything."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from veldt.envs.arrangement import probe_spec
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.experiments.experiment import Experiment, Job
from veldt.experiments.planning.kinds import one_of_each_kind
from veldt.networks.own import NO_PARTS
from veldt.recipes.configure import configure
from veldt.systems.planning.checks import check_request, check_sizes


def check_installed(experiment: Experiment) -> None:
    """Raises UsageError if a module that the experiment needs is not installed."""
    for module, command in experiment.needs.items():
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                f"the experiment {experiment.name} needs {module}, which is not installed: {command}"
            )


def check_jobs(jobs: Sequence[Job]) -> None:
    """Raises UsageError where a run could not begin: its settings do not fit its environment, or each other."""
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise UsageError(f"two runs would have the name {max(names, key=names.count)}")
    specs: dict[str, EnvSpec] = {}
    for job in one_of_each_kind(jobs):
        request = configure(job.recipe, job.env, {}, None, NO_PARTS, job.settings)
        check_request(request, None)
        if job.env not in specs:
            specs[job.env] = probe_spec(request.source, request.config.atari)
        try:
            check_sizes(request.config, specs[job.env])
        except UsageError as error:
            # It does not say which of the experiment's recipes and environments it is about.
            raise UsageError(f"{job.recipe} on {job.env} cannot begin: {error}") from error
