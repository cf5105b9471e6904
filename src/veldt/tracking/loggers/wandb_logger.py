"""Weights & Biases. Its own environment variables apply: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE=offline, ..."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veldt.tracking.loggers.logger import Logger


class WandbLogger(Logger):
    """One run in the project WANDB_PROJECT, by default "veldt". Its files are in `directory/wandb`.

    Args:
        directory: of the run; its name is the run's name.
        run_id: identifies the run: after a resume the same one continues. Rows that are logged again after a resume are
            there twice; the x axis of all metrics is `step`.
    """

    def __init__(self, directory: Path, run_id: str) -> None:
        import wandb

        self._wandb = wandb
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "veldt"),
            name=directory.name,
            id=run_id,
            resume="allow",
            dir=directory,
            settings=wandb.Settings(console="off"),  # the screen belongs to the progress of the run
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._run.config.update(dict(config), allow_val_change=True)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def log_video(self, step: int, path: Path) -> None:
        self._run.log({"step": step, "video": self._wandb.Video(str(path), format="mp4")})

    def close(self) -> None:
        self._run.finish()
