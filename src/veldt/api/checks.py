"""A check of checkpoints that all functions of the API make."""

from __future__ import annotations

from veldt.config.train_config import TrainConfig
from veldt.errors import CheckpointError
from veldt.runs.checkpoint_files import Checkpoint


def check_recipe(checkpoint: Checkpoint, config: TrainConfig) -> None:
    """Raises CheckpointError if another recipe than the run's has written the checkpoint."""
    wrote = checkpoint.meta.get("recipe")
    if wrote != config.recipe:
        raise CheckpointError(
            f"{checkpoint.path} was written by recipe '{wrote}', and this run's is '{config.recipe}': it was put here "
            "from another run (then remove it), or config.json was changed (then change it back)"
        )
