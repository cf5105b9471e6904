"""Stores checkpoints that are whole or refused: a directory per step, a checksum per file, no half-written ones.

    checkpoints/step-000000123456/
      weights.safetensors  optimiser.safetensors  ...   one file per group of arrays
      manifest.json        format, step, score, meta, size and SHA-256 of every file, and its own checksum

A checkpoint is written under a temporary name, flushed to the disk and renamed, so that a kill at any moment leaves
older ones intact. Pruning keeps the best checkpoint (by the score in its manifest), and every checkpoint whose
directory contains anything that veldt did not write.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veldt.errors import CheckpointError, VeldtError
from veldt.runs.checkpoint_files import Checkpoint, load_checkpoint, read_manifest, write_checkpoint
from veldt.runs.files import explained, sync_directory
from veldt.runs.own_files import foreign, is_own, make_directory, refuse_other, remove_own_tree
from veldt.runs.own_names import (
    CHECKPOINTS,
    MANIFEST,
    OF_CHECKPOINT,
    PARTIAL,
    PARTIAL_STEP,
    STEP,
    Names,
    one_of,
)

__all__ = ["Checkpoint", "CheckpointStore", "newest_checkpoint"]


class CheckpointStore:
    """The checkpoints of one run, in `path` (made at the first save). The newest `keep` and the best one are kept."""

    def __init__(self, path: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.path, self.keep = Path(path), keep

    def save(
        self,
        step: int,
        groups: Mapping[str, Mapping[str, np.ndarray]],
        meta: Mapping[str, Any],
        score: float | None = None,
    ) -> Path:
        """Writes a checkpoint, prunes older ones, and returns its directory.

        A higher `score` is better; None (not known yet) and NaN are never best. A checkpoint of the same step is
        replaced. VeldtError if the disk refuses, UsageError if `path` is a link: the older checkpoints stay intact
        then.
        """
        target = self.path / f"step-{step:012d}"
        with explained(f"the checkpoint of step {step:,}", target):
            make_directory(self.path)
            refuse_other(target, stat.S_IFDIR)
            # First removes what a killed process left behind.
            self._prune()
            partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=self.path))
            try:
                # mkdtemp makes a private directory; a checkpoint gets the same access rights as the rest of the run.
                partial.chmod(self.path.stat().st_mode & 0o777)
                write_checkpoint(partial, step, groups, meta, score)
                if target.exists():
                    # A rename cannot replace a full directory, and a kill between two renames must not lose both.
                    target.rename(target.with_suffix(".old"))
                partial.rename(target)
                sync_directory(self.path)
            except BaseException:
                # Removed before the free space is measured for the error message.
                _remove(partial)
                raise
        self._prune()
        return target

    @staticmethod
    def load(path: Path) -> Checkpoint:
        """Loads the checkpoint in directory `path`, with every size and checksum verified.

        CheckpointError names the file that is missing, truncated, altered, or written by a newer veldt.
        """
        return load_checkpoint(Path(path))

    def has_any(self) -> bool:
        """Whether there is a checkpoint, whole or damaged."""
        return bool(self._newest_first())

    def newest_step(self) -> int:
        """Returns the step of the newest checkpoint, whole or damaged; 0 if there is none."""
        steps = (STEP.fullmatch(path.name) for path in self._newest_first()[:1])
        return next((int(step[1]) for step in steps if step), 0)

    def newest_meta(self) -> list[dict[str, Any]]:
        """Returns the `meta` of the newest `keep` checkpoints with a readable manifest; checks nothing else of them."""
        return [read_manifest(path)["meta"] for path in self._newest_first() if _is_readable(path)][
            : self.keep
        ]

    def newest(self, on_damaged: Callable[[str], None]) -> Checkpoint:
        """Loads the newest whole checkpoint; `on_damaged` gets a sentence for each damaged one that is skipped.

        CheckpointError if there is none.
        """
        return self._first_whole(self._newest_first, on_damaged)

    def best(self, on_damaged: Callable[[str], None]) -> Checkpoint:
        """Loads the whole checkpoint with the highest score (the later of equals); the newest if none has a score."""
        # Sorting is stable: equal scores, and checkpoints without a score, stay newest first.
        return self._first_whole(lambda: sorted(self._newest_first(), key=_score, reverse=True), on_damaged)

    def _first_whole(self, listed: Callable[[], list[Path]], on_damaged: Callable[[str], None]) -> Checkpoint:
        problems: list[str] = []
        paths = listed()
        for path in paths:
            try:
                return self.load(path)
            except CheckpointError as error:
                if not os.path.lexists(path):  # a running training has pruned it, so there is a newer one
                    return self._first_whole(listed, on_damaged)
                problems.append(str(error))
                on_damaged(problems[-1])
        found = (
            f"none of the {len(paths)} checkpoints in {self.path} is whole ({problems[0]})"
            if paths
            else f"none in {self.path}, so the run never began; train again"
        )
        raise CheckpointError(f"there is no checkpoint to load: {found}")

    def _newest_first(self) -> list[Path]:
        try:
            names = [match for path in self.path.iterdir() if (match := STEP.fullmatch(path.name))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:  # a link to itself, for example
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error
        names.sort(key=lambda match: (int(match[1]), match[2] is None), reverse=True)
        return [self.path / match[0] for match in names]

    def _prune(self) -> None:
        paths = self._newest_first()
        replaced = [path for path in paths if path.suffix == ".old" and path.with_suffix("").exists()]
        for path in replaced:
            _carry_over(path, path.with_suffix(""))
        current = [path for path in paths if path not in replaced]
        readable = [path for path in current if _is_readable(path)]
        newest = readable[: self.keep]
        # A damaged checkpoint among the newest is kept for inspection, however many there are.
        kept = set(current[: current.index(newest[-1]) + 1] if newest else current)
        if readable:
            kept.add(max(readable, key=_score))  # `max` takes the first of equals, the newest.
        for path in [path for path in paths if path not in kept and is_own(path, _names(path))]:
            # Renamed first: a kill during the removal must not leave what looks like a damaged checkpoint.
            with contextlib.suppress(OSError):
                path.rename(self.path / f"{PARTIAL}{path.name}")
        self._remove_partial()

    def _remove_partial(self) -> None:
        for path in self.path.glob(f"{PARTIAL}*"):
            if PARTIAL_STEP.fullmatch(path.name):
                _remove(path)


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """Returns the checkpoint that a role of this run starts from: the newest whole one, None if there is none yet.

    VeldtError if the directory does not exist: else a role on another node would silently begin from scratch.
    """
    if not run.is_dir():
        raise VeldtError(
            f"the run's directory {run} is not there on {platform.node()}: roles read checkpoints there, so it must be "
            "on storage that all nodes share, under the same path"
        )
    store = CheckpointStore(run / CHECKPOINTS)
    return store.newest(lambda _: None) if store.has_any() else None


def _names(path: Path) -> Names:
    """Returns the file names of the checkpoint in `path`: those in its manifest, if that can be read."""
    with contextlib.suppress(CheckpointError):
        return Names(one_of(MANIFEST, *read_manifest(path)["files"]))
    return OF_CHECKPOINT


def _remove(path: Path) -> None:
    """Removes the directory of a checkpoint, unless it contains anything else."""
    if is_own(path, OF_CHECKPOINT):
        remove_own_tree(path, OF_CHECKPOINT)


def _carry_over(old: Path, new: Path) -> None:
    """Moves files that veldt did not write from the replaced checkpoint `old` to the new one."""
    with contextlib.suppress(OSError):
        for name in foreign(old, _names(old)):
            if not os.path.lexists(new / name):
                (old / name).rename(new / name)


def _is_readable(path: Path) -> bool:
    with contextlib.suppress(CheckpointError):
        read_manifest(path)
        return True
    return False


def _score(path: Path) -> float:
    with contextlib.suppress(CheckpointError):
        score = read_manifest(path)["score"]
        return -math.inf if score is None else float(score)
    return -math.inf
