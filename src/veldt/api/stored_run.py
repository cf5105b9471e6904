"""The first step of a resumed run: from its directory to the configuration, and to the checkpoint to continue from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from veldt.api.causes import VERSIONS, other_versions
from veldt.api.checks import check_recipe
from veldt.config.plugins import read_run_config
from veldt.config.run_code import Admitted, CodeChoice, admit, admit_functions
from veldt.config.run_request import RunRequest
from veldt.config.stored_config import from_dict
from veldt.config.train_config import RESUMABLE, SECTIONS, TrainConfig
from veldt.errors import CheckpointError, UsageError, VeldtError, did_you_mean
from veldt.networks.own import PARTS
from veldt.recipes.draft import Draft, names_of
from veldt.recipes.overrides import why_fixed, with_settings
from veldt.replay.needed_segments import refuse_other_segments
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.setting_text import flag, shown
from veldt.tracking.recording import named_functions

# The end of the sentence about any other setting.
FIXED = f"cannot change when a run is resumed: only {', '.join(map(flag, RESUMABLE))} can; start a new run instead"


@dataclass(frozen=True)
class StoredRun:
    """What a run continues with.

    `notes` are sentences about checkpoints that could not be read. `other_versions` is one about versions and a
    processor that are not those with which the run began; "" if all are.
    """

    request: RunRequest
    checkpoint: Checkpoint
    notes: list[str]
    other_versions: str = ""


# Arguments of `resume` that other libraries have under another name.
_ARGUMENTS = ("env", *PARTS, "cluster")


def refuse_fixed(run: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
    """Raises UsageError for a name that is no setting, or a setting that cannot change when a run is resumed."""
    for name in sorted(set(settings) - set(RESUMABLE)):
        why = why_fixed(name, FIXED, (*RESUMABLE, *_ARGUMENTS), partial(draft_of, run))
        raise UsageError(
            why
            or f"no setting '{name}'{did_you_mean(name, RESUMABLE)}: {', '.join(RESUMABLE)} can change when a run "
            "is resumed"
        )


def draft_of(run: str | os.PathLike[str]) -> Draft | None:
    """Returns the draft that has the settings of a stored run; None if it needs an import, or cannot be read."""
    with contextlib.suppress(VeldtError):
        return Draft.of(from_dict(RunDirectory.open(run).read_config()["resolved"]))
    return None


def read_stored_run(directory: RunDirectory, choice: CodeChoice, settings: Mapping[str, Any]) -> StoredRun:
    """Reads the run in `directory`, which this process has locked: another one would still write checkpoints.

    Args:
        settings: changes, by name.

    Raises:
        UsageError: the run names code that the user has neither named nor trained with, or `settings` has fewer steps
            than are done.
        CheckpointError: no checkpoint is complete, or the newest one belongs to another run.
    """
    stored = directory.read_config()
    previous = read_run_config(directory.path, stored["resolved"], choice.trust)
    config = with_settings(previous, settings)
    given = {name: config.value_of(name) for name in settings}
    notes: list[str] = []
    checkpoint = CheckpointStore(directory.checkpoints).newest(notes.append)
    check_recipe(checkpoint, config)
    _check_segments(checkpoint)
    if previous.run.steps != config.run.steps < checkpoint.step:
        raise UsageError(
            f"--steps is {config.run.steps:,}, but {checkpoint.step:,} are done: give more, or leave it out"
        )
    code = admit_to_train(directory, config, choice, "resume(run, {})", given)
    request = RunRequest(code.config, code.source, code.own, given, given_in(stored, previous))
    return StoredRun(request, checkpoint, notes, _since_it_began(stored))


def given_in(stored: Mapping[str, Any], config: TrainConfig) -> dict[str, Any]:
    """Returns the settings, by name, that the user gave to the run of this config.json; `config` is its configuration.

    Raises:
        CheckpointError: the configuration has no such setting.
    """
    given: dict[str, Any] = {}
    for section in SECTIONS:
        part = stored.get("given", {}).get(section, {})
        known = names_of(type(getattr(config, section))) if getattr(config, section) is not None else set()
        if not isinstance(part, dict) or not part.keys() <= known:
            raise CheckpointError(
                f"the settings that the run was given have the section '{section}' with the value {shown(part)}, which "
                "the run does not have as settings: config.json is not as veldt wrote it"
            )
        given |= part
    return given


def admit_to_train(
    directory: RunDirectory, config: TrainConfig, choice: CodeChoice, call: str, named: Container[str] = ()
) -> Admitted:
    """Returns the code with which a stored run trains again, and admits the loggers and callbacks that it names.

    Args:
        call: as for `admit`.
        named: settings that the user has given in this call: the code that they name is admitted.

    Raises:
        UsageError: as for `admit`, also for a logger or callback.
    """
    code = admit(directory.path, config, choice, call, trains=True)
    for kind, names in named_functions(config.run.log, config.run.callback).items():
        if not choice.trust and {"logger": "log"}.get(kind, kind) not in named:
            admit_functions(directory.path, kind, names)
    return code


@contextlib.contextmanager
def with_changes(directory: RunDirectory, stored: StoredRun) -> Iterator[RunDirectory]:
    """Writes changed settings into the run's config.json, where the next resume reads them, and an event if it goes on
    with other versions; yields the directory."""
    directory.change_config("run", stored.request.given)
    if stored.other_versions:
        directory.write_event(stored.checkpoint.step, VERSIONS, stored.other_versions)
    yield directory


def _since_it_began(stored: Mapping[str, Any]) -> str:
    changed = "; ".join(other_versions(stored))
    return changed and f"since the run began: {changed}; what follows may differ from what it would have been"


def _check_segments(checkpoint: Checkpoint) -> None:
    try:
        refuse_other_segments(checkpoint.meta)
    except CheckpointError as error:
        raise CheckpointError(
            f"the manifest of {checkpoint.path} was not written by veldt ({error}): remove this checkpoint"
        ) from None
