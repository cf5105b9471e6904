"""Settings of a run of PPO that lasts a moment."""

from __future__ import annotations

from typing import Any

TINY: dict[str, Any] = {
    "steps": 256,
    "num_envs": 4,
    "batch_size": 64,
    "minibatches": 2,
    "epochs": 1,
    "hidden": (8,),
    "threads": 1,
    "log": "none",
    "log_every": 0.0,
    "env_backend": "in-process",
}
