"""From a run or an export to a policy that acts."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch

from veldt.agent import Agent, make_network
from veldt.api.checks import check_recipe
from veldt.config.plugins import read_run_config
from veldt.config.run_code import Admitted, CodeChoice, admit
from veldt.envs.arrangement import probe_spec
from veldt.errors import NOT_AS_STORED, CheckpointError, UsageError
from veldt.exporting.stored_export import StoredExport
from veldt.learning.learner import load_weights
from veldt.networks.precision import apply_precision
from veldt.runs.checkpoint_files import restoring
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.export_files import is_export
from veldt.runs.files import from_here
from veldt.runtime.devices import choose_device
from veldt.setting_metadata import check_path, check_type
from veldt.setting_text import flag


def load_agent(
    run: str | os.PathLike[str], best: bool, choice: CodeChoice, device: str, call: str, *, fp32: bool = False
) -> Agent:
    """See `load`; `call` as for `admit`. With `fp32` it computes in that precision, whatever the run did."""
    target = choose_device(device)
    check_type(flag("best"), best, bool)
    check_path("run", run, required=True)
    if is_export(Path(run)):
        return _of_export(StoredExport.open(Path(run)), best, choice, device, call)
    directory = RunDirectory.open(run)
    stored = read_run_config(directory.path, directory.read_config()["resolved"], choice.trust)
    chosen = admit(directory.path, stored, choice, call)
    if fp32:
        precise = dataclasses.replace(chosen.config.run, precision="fp32")
        chosen = dataclasses.replace(chosen, config=dataclasses.replace(chosen.config, run=precise))
    notes: list[str] = []
    store = CheckpointStore(directory.checkpoints)
    checkpoint = (store.best if best else store.newest)(notes.append)
    for note in notes:
        print(note, file=sys.stderr)
    check_recipe(checkpoint, chosen.config)
    with restoring(checkpoint):
        weights = checkpoint.groups["weights"]
    return _agent(chosen, weights, restoring(checkpoint), directory.path_from_here, checkpoint.step, target)


def _of_export(export: StoredExport, best: bool, choice: CodeChoice, device: str, call: str) -> Agent:
    if best:
        raise UsageError(
            f"--best is about a run's checkpoints, and {export.path} is an export, which has one policy: leave it out"
        )
    chosen = _admitted(export, choice, call)
    weights, target = export.weights(), choose_device(device)
    return _agent(chosen, weights, _restoring(export), export.path, export.step, target)


def _agent(
    chosen: Admitted,
    weights: Mapping[str, Any],
    restores: AbstractContextManager[None],
    path: Path,
    step: int,
    device: torch.device,
) -> Agent:
    """Makes the policy of a configuration, with these weights; `restores` explains weights that do not fit."""
    place = path.absolute()
    spec = probe_spec(chosen.source, chosen.config.atari)
    policy = make_network(chosen.config, spec, chosen.own)
    with restores:
        load_weights(apply_precision(policy, chosen.config.run.precision, device), weights)
    return Agent(
        chosen.config, chosen.source, spec, policy, path=from_here(path, place), step=step, device=device
    )


def _admitted(export: StoredExport, choice: CodeChoice, call: str) -> Admitted:
    return admit(export.path, read_run_config(export.path, export.settings, choice.trust), choice, call)


@contextmanager
def _restoring(export: StoredExport) -> Iterator[None]:
    try:
        yield
    except (*NOT_AS_STORED, CheckpointError) as error:
        raise CheckpointError(
            f"{export.path} does not hold the weights of its network ({str(error)[:200]}): it was not "
            "written by veldt, or by another version; export the run again"
        ) from error
