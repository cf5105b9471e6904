"""The public function that trains a finished run again, to see whether its results can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veldt.api.stored_run import admit_to_train, given_in
from veldt.api.training import directory_of_new
from veldt.config.plan_digest import plan_digest
from veldt.config.plugins import read_run_config
from veldt.config.run_code import Choice, Env, Part
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.errors import UsageError
from veldt.networks.own import OwnParts
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.difference import first_difference
from veldt.runs.directory import RunDirectory
from veldt.runs.machine import versions
from veldt.runs.own_files import refuse_links
from veldt.systems.run import Run, RunOptions, run_system
from veldt.user_code.attribution import naming_user_code


@dataclass(frozen=True)
class Reproduction:
    """A run that was trained again.

    Args:
        run: the new run.
        original: the directory of the run that it repeats.
        is_repeatable: whether its results depend on nothing but its plan: on the CPU, in a synchronous system.
        difference: where the two runs first differ, in words; None if episodes and weights are the same bit for bit.
        cause: what decides the results and is not as it was (versions, the processor), in words; None if nothing is.
    """

    run: Run
    original: Path
    is_repeatable: bool
    difference: str | None
    cause: str | None


@naming_user_code()
def reproduce(
    run: str | Path,
    *,
    run_dir: str | Path | None = None,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
    quiet: bool = False,
) -> Reproduction:
    """Trains a finished run again from its start, with every setting as that run resolved it, and compares the two.

    `train` chooses processes, threads and precision by measuring the machine, so that the same call may train with
    another plan, and other results, beside busy neighbours. This function chooses nothing anew.

    Args:
        run: the run directory. The run has finished: its reason is "steps" or "until".
        run_dir: the directory of the new run; default as for `train`.
        env, network, core, actor, critic, model, trust: as for `load`.
        quiet: shows no progress.

    Raises:
        UsageError: the run does not exist, was not finished, or is being trained; or as for `load`.
        CheckpointError: it has no whole checkpoint to compare with.
        EnvError: the env failed.
        VeldtError: training failed.
    """
    directory = RunDirectory.open(run)
    refuse_links(directory.path)
    summary = _finished(directory)
    stored = directory.read_config()
    choice = Choice(env, OwnParts(network, core, actor, critic, model), trust)
    config = read_run_config(directory.path, stored["resolved"], choice.trust)
    code = admit_to_train(directory, config, choice, "reproduce(run, {})")
    request = RunRequest(code.config, code.source, code.own, given_in(stored, config))
    CheckpointStore(directory.checkpoints).newest(
        lambda _: None
    )  # else the comparison would fail after training
    new = run_system(request, RunOptions(quiet=quiet), directory_of_new(code.config, run_dir))
    is_repeatable = config.roles.is_repeatable and config.run.device == "cpu"
    cause = _cause(stored, summary, config)
    return Reproduction(new, directory.path, is_repeatable, first_difference(directory.path, new.path), cause)


def _finished(directory: RunDirectory) -> dict[str, Any]:
    """Returns the summary of a run that has finished. UsageError for any other run."""
    path, summary = directory.path, directory.read_summary()
    if directory.is_locked():
        raise UsageError(f"{path} is still being trained: reproduce it when it has finished")
    if summary is None or summary.get("reason") not in ("steps", "until"):
        raise UsageError(
            f"{path} has not finished: `veldt resume {path}` finishes it, with the results that it would have had "
            "without the pause if its system is synchronous"
        )
    return summary


def _cause(stored: Mapping[str, Any], summary: Mapping[str, Any], config: TrainConfig) -> str | None:
    before, now = stored.get("versions", {}), versions()
    changed = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    if changed:
        return " and ".join(
            f"{name} was {before.get(name, 'missing')} and is {now.get(name, 'missing')}" for name in changed
        )
    if summary.get("plan_digest") != plan_digest(config):
        return "the processor has another instruction set than that of the first run, or its config.json was changed"
    return None
