"""What an export's config.json holds, and an export read back: from somebody else it is input, as a run is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from veldt.agent import Agent
from veldt.config.stored_config import to_dict
from veldt.errors import CheckpointError, UsageError
from veldt.exporting.raw_observations import GraphArray
from veldt.networks.normaliser import NAME, normaliser_of
from veldt.runs.checkpoint_files import read_arrays, verify_file
from veldt.runs.export_files import read_export_config
from veldt.runs.own_names import CONFIG, EXPORT_FORMAT, WEIGHTS

FORMAT = 1


@dataclass(frozen=True)
class StoredExport:
    """An export in `path`: `settings` are the run's, as `stored_config.to_dict` wrote them."""

    path: Path
    settings: dict[str, Any]
    step: int
    _file: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> StoredExport:
        """Reads config.json. CheckpointError if it is not as veldt wrote it."""
        values = read_export_config(path)
        if values is None:
            raise UsageError(f"{path} is not an export of veldt")
        number, settings, step = (values.get(name) for name in (EXPORT_FORMAT, "settings", "step"))
        file = values.get("weights")
        if type(number) is int and number > FORMAT:
            raise CheckpointError(
                f"{path} was written by a newer veldt (export format {number}, this one reads up to {FORMAT}): upgrade "
                "veldt to load it"
            )
        is_whole = (
            type(number) is int
            and isinstance(settings, dict)
            and type(step) is int
            and step >= 0
            and isinstance(file, dict)
            and type(file.get("size")) is int
            and isinstance(file.get("sha256"), str)
        )
        if not is_whole:
            raise CheckpointError(f"{path / CONFIG} is not as veldt export wrote it: export the run again")
        assert isinstance(settings, dict) and isinstance(step, int) and isinstance(file, dict)
        return cls(path, settings, step, file)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the policy's weights by name. CheckpointError if the file is missing or is not that of the export."""
        path = self.path / WEIGHTS
        if not path.is_file():
            raise CheckpointError(
                f"{path} is missing: download the whole repository, or export the run again"
            )
        try:
            verify_file(path, self._file)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; download it again (a git clone needs `git lfs pull`), or export the run again"
            ) from None
        return read_arrays(path)


def export_config(
    agent: Agent,
    run: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    weights: Mapping[str, Any],
    graph: Mapping[str, Sequence[GraphArray]],
) -> dict[str, Any]:
    """Returns the content of config.json.

    Args:
        run: the run's config.json.
        evaluation: see `evaluation_facts`.
        weights: size and SHA-256 of model.safetensors.
        graph: the inputs and outputs of the graph; empty where there is none.
    """
    fields = {name: dataclasses.asdict(field) for name, field in agent.spec.observation.items()}
    normaliser = normaliser_of(agent.network)
    return {
        EXPORT_FORMAT: FORMAT,
        "veldt_version": version("veldt"),
        "run": run.get("id"),
        "step": agent.step,
        "weights": dict(weights),
        "observation": fields,
        "action": dataclasses.asdict(agent.spec.action),
        # Where the statistics are in model.safetensors: NAME.mean and NAME.variance.
        "normalised": {}
        if normaliser is None
        else {name: f"{NAME}.fields.{n}" for n, (name, _) in enumerate(normaliser.statistics())},
        "evaluation": dict(evaluation),
        "graph": {kind: [dataclasses.asdict(array) for array in arrays] for kind, arrays in graph.items()},
        "settings": to_dict(agent.config),
        "given": run.get("given", {}),
        "versions": run.get("versions", {}),
    }
