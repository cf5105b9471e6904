"""The public function that trains a finished run again, to see whether its results can be repeated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veldt.api.causes import likely_cause
from veldt.api.stored_run import admit_to_train, given_in
from veldt.api.training import directory_of_new
from veldt.config.plugins import read_run_config
from veldt.config.run_code import CodeChoice, Env, Part
from veldt.config.run_request import RunRequest
from veldt.config.versions import unversioned_code
from veldt.errors import UsageError
from veldt.networks.own import OwnParts
from veldt.runs import strict_json
from veldt.runs.difference import check_comparable, first_difference
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import refuse_links
from veldt.runs.own_names import SUMMARY
from veldt.runtime.usual_torch import usual_torch
from veldt.systems.run import Run, RunOptions, run_system
from veldt.tracking.callback import Callback
from veldt.tracking.loggers.logger import Logger
from veldt.user_code.attribution import naming_user_code
from veldt.user_code.working_directory import working_directory

_FINISHED = ("steps", "until")
_TOO_MANY = 1 << 63  # of steps


@dataclass(frozen=True)
class Reproduction:
    """A run that was trained again.

    Args:
        run: the new run.
        original: the directory of the run that it repeats.
        is_repeatable: whether its results depend on nothing but its plan: on the CPU, in a synchronous system, and with
            several learners only if the run ended with its steps.
        difference: where the two runs first differ, in words; None if episodes and weights are the same bit for bit.
        cause: what decides the results and is known to be other than it was (code, versions, the processor, settings
            that a resume has changed, the end of the new run), in words; None if nothing is.
        own_code: names of the code on which the results depend, too, and which may be other than it was without a
            change of versions: the environment, parts of the network, schedules and plug-ins of the user's own.
    """

    run: Run
    original: Path
    is_repeatable: bool
    difference: str | None
    cause: str | None
    own_code: Sequence[str] = ()


@naming_user_code()
@usual_torch()
def reproduce(
    run: str | os.PathLike[str],
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
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
) -> Reproduction:
    """Trains a finished run again from its start, with every setting as that run resolved it, and compares the two.

    `train` chooses processes, threads and precision by measuring the machine, so that the same call may train with
    another plan, and other results, beside busy neighbours. This function chooses nothing anew.

    Args:
        run: the run directory. The run has finished: its reason is "steps" or "until".
        run_dir: the directory of the new run; default as for `train`.
        env, network, core, actor, critic, model, trust: as for `load`.
        quiet, loggers, callbacks: as for `train`; they are those of the new run.

    Raises:
        UsageError: the run does not exist, was not finished, or is being trained; or as for `load`.
        CheckpointError: the checkpoint of its end is damaged or missing, so that nothing can be compared with it.
        EnvError: the env failed.
        VeldtError: training failed.
        KeyboardInterrupt: the new run was interrupted, as by Ctrl-C; nothing was compared.
    """
    directory, here = RunDirectory.open(run), working_directory()
    refuse_links(directory.path)
    summary, stored = _summary_of_finished(directory), directory.read_config()
    choice = CodeChoice(env, OwnParts(network, core, actor, critic, model), trust)
    config = read_run_config(directory.path, stored["resolved"], choice.trust)
    if summary["reason"] == "steps" and summary["steps"] < config.run.steps:
        raise _unfinished(directory)  # it was resumed with more steps, and killed
    given = given_in(stored, config)
    code = admit_to_train(directory, config, choice, "reproduce(run, {})")
    check_comparable(directory.place, summary["steps"])
    cause = likely_cause(directory, stored, summary, config, code)
    notes = [] if cause is None else [f"the results may differ from those of {directory.path}: {cause}"]
    request = RunRequest(code.config, code.source, code.own, given, repeats=directory.path)
    options = RunOptions(None, quiet, loggers, callbacks)
    new = run_system(request, options, directory_of_new(code.config, run_dir, here), notes=notes)
    if new.reason == "interrupted":
        raise _interrupted(new, directory.path)
    if new.reason not in _FINISHED:
        cause = f"the new run was stopped at step {new.summary['steps']:,} ({new.reason})"
    # Learners in processes of their own go on until they hear that the target return was reached.
    is_timed = summary["reason"] == "until" and not config.in_one_process
    is_repeatable = config.roles.is_repeatable and config.run.device == "cpu" and not is_timed
    difference = first_difference(directory.place, new.path)
    return Reproduction(new, directory.path, is_repeatable, difference, cause, unversioned_code(code.config))


def _summary_of_finished(directory: RunDirectory) -> dict[str, Any]:
    """Returns the summary of a run that has finished. UsageError for any other run."""
    path, summary = directory.path, directory.read_summary()
    if directory.is_locked():
        raise UsageError(f"{path} is still being trained: reproduce it when it has finished")
    if summary is None or summary.get("reason") not in _FINISHED:
        raise _unfinished(directory)
    if not strict_json.is_count(summary.get("steps"), _TOO_MANY):
        raise UsageError(f"{path / SUMMARY} is damaged: its steps are {summary.get('steps')!r:.100}")
    return summary


def _interrupted(new: Run, original: Path) -> KeyboardInterrupt:
    interrupt = KeyboardInterrupt()
    interrupt.add_note(
        f"{new.path} was stopped at step {new.summary['steps']:,}, and nothing was compared with {original}"
    )
    return interrupt


def _unfinished(directory: RunDirectory) -> UsageError:
    path = directory.path
    return UsageError(
        f"{path} has not finished: `veldt resume {path}` finishes it, with the results that it would have had "
        "without the pause if its system is synchronous"
    )
