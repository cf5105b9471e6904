"""The files of a run, for tests of what veldt may read, overwrite and remove."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

DQN_SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "quiet": True,
    "steps": 120,
    "num_envs": 4,
    "batch_size": 16,
    "horizon": 4,
    "learning_starts": 40,
    "buffer_size": 200,
    "hidden": (8,),
    "threads": 1,
    "env_backend": "in-process",
    "checkpoint_every": 40,
    "evaluate_every": 0,
}


def tree(path: Path) -> dict[str, Any]:
    """Everything below `path`: the content of files, where links lead to, and directories."""
    found: dict[str, Any] = {}
    for inner in sorted(path.rglob("*")):
        name = str(inner.relative_to(path))
        if inner.is_symlink():
            found[name] = ("link", os.readlink(inner))
        else:
            found[name] = inner.read_bytes() if inner.is_file() else "directory"
    return found


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def oldest(run: Path) -> Path:
    return min((run / "checkpoints").glob("step-*"))


def with_manifest(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a manifest, and gives it the checksum that it has then."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps({**manifest, "sha256": digest}))
