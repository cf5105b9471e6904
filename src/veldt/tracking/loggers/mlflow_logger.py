"""MLflow. Its own environment variables apply: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, ..."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from veldt.tracking.loggers.logger import Logger

_TAG = "veldt.run_id"
_PARAMETERS = 100  # that MLflow takes at once
_LENGTH = 6000  # of a parameter's value


class MlflowLogger(Logger):
    """One run in the experiment MLFLOW_EXPERIMENT_NAME, by default "veldt". Settings become parameters.

    Args:
        directory: of the run; its name is the run's name.
        run_id: a tag of the run, by which it is found after a resume.
    """

    def __init__(self, directory: Path, run_id: str) -> None:
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self._metric, self._param = Metric, Param
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "veldt")
        experiment = self._client.get_experiment_by_name(name)
        number = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        found = self._client.search_runs([number], f"tags.`{_TAG}` = '{run_id}'", max_results=1)
        run = (
            found[0]
            if found
            else self._client.create_run(number, run_name=directory.name, tags={_TAG: run_id})
        )
        self._id = run.info.run_id
        self._client.update_run(self._id, status="RUNNING")
        self._known = set(run.data.params)

    def log_config(self, config: Mapping[str, Any]) -> None:
        # MLflow refuses to change a parameter: those of a resumed run stay as they were.
        new = ((name, text) for name, text in _flat(config, "") if name not in self._known)
        while part := [self._param(name, text[:_LENGTH]) for name, text in islice(new, _PARAMETERS)]:
            self._client.log_batch(self._id, params=part)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        values = [self._metric(name, float(value), now, step) for name, value in metrics.items()]
        self._client.log_batch(self._id, metrics=values)

    def log_video(self, step: int, path: Path) -> None:
        self._client.log_artifact(self._id, str(path), "videos")

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _flat(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yields settings with dotted names, as text."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
