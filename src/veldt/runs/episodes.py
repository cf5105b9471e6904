"""The log of finished training episodes: seeds and actions, from which each episode can be replayed.

episodes.jsonl   one line per episode: env, step, return, and the location of its actions
actions.bin      the actions of all episodes, raw and little-endian, one episode after the other
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from veldt import formatting
from veldt.errors import VeldtError
from veldt.runs import strict_json
from veldt.runs.files import AppendFile, open_to_read, read_json_lines
from veldt.runs.own_names import ACTIONS, EPISODES

WINDOW = 100  # episodes whose mean return is the score of a run, on the screen and for `--until`
_BUFFERED_BYTES = 1 << 20
_COUNTS = ("env", "episode", "seed", "step", "length", "prefix")
_TOO_MANY = 1 << 64  # of seeds, which are the largest
_MOST_AXES = 8
_STORED = frozenset(
    (
        "float16",
        "float32",
        "float64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
    )
)


class EpisodeLog:
    """Writes the finished episodes of the run in `directory`.

    `resume` is the `position()` in the checkpoint from which training resumes: later episodes are removed. After
    `limit_bytes` of actions, episodes are still listed but without their actions, and `on_warning` gets one sentence
    about it.
    """

    def __init__(
        self,
        directory: Path,
        resume: tuple[int, int] | None = None,
        *,
        limit_bytes: int = 2 << 30,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as where_it_fails:
            self._index = AppendFile(directory / EPISODES, "the list of episodes")
            where_it_fails.callback(self._index.close)
            self._actions = AppendFile(directory / ACTIONS, "the actions of episodes")
            where_it_fails.callback(self._actions.close)
            if resume is not None:
                self._index.truncate(resume[0])
                self._actions.truncate(resume[1])
            self._index.drop_torn_line()
            where_it_fails.pop_all()
        self._limit_bytes, self._on_warning = limit_bytes, on_warning
        self._new_lines, self._new_actions = bytearray(), bytearray()

    def append(
        self,
        *,
        env: int,
        episode: int,
        seed: int,
        step: int,
        length: int,
        score: float,
        actions: np.ndarray,
        prefix: int = 0,
        counts: bool = True,
    ) -> None:
        """Adds a finished episode.

        `episode` is the episode's number in `env`, `seed` the seed of its reset, `step` the run's agent steps at its
        end, `length` its agent steps, `score` its sum of raw rewards. `actions` is [length, ...]; integers are stored
        in the smallest type that holds them, floats as they are. The first `prefix` of them are random start steps.
        `counts` is whether it counts for the run's mean return.
        """
        row: dict[str, Any] = {"env": env, "episode": episode, "seed": seed, "step": step}
        row |= {"length": length, "score": score, "prefix": prefix, "offset": None}
        if not counts:
            row["counts"] = False
        stored = smallest(actions)
        offset = self._actions.size + len(self._new_actions)
        if offset + stored.nbytes <= self._limit_bytes:
            row |= {"offset": offset, "dtype": stored.dtype.name, "shape": list(stored.shape)}
            self._new_actions += stored.tobytes()
        elif self._on_warning is not None:
            self._on_warning(
                f"{formatting.size(offset)} of actions are kept; those of later episodes are not, and these "
                "cannot be replayed"
            )
            self._on_warning = None
        self._new_lines += strict_json.dumps(row).encode() + b"\n"
        if len(self._new_lines) + len(self._new_actions) >= _BUFFERED_BYTES:
            self._write()

    def flush(self) -> None:
        """Flushes everything to the disk; called before each checkpoint. VeldtError if the disk refuses."""
        self._write()
        self._actions.sync()
        self._index.sync()

    def position(self) -> tuple[int, int]:
        """Returns the bytes of `episodes.jsonl` and `actions.bin` so far, flushed or not; stored in checkpoints."""
        return self._index.size + len(self._new_lines), self._actions.size + len(self._new_actions)

    def close(self) -> None:
        """Flushes and closes the files; closing twice is allowed."""
        try:
            self._write()
        finally:
            self._actions.close()
            self._index.close()

    def _write(self) -> None:
        # Actions first, so that a kill in between leaves no listed episode without its actions.
        if self._new_actions:
            self._actions.append(bytes(self._new_actions))
            self._new_actions.clear()
        if self._new_lines:
            self._index.append(bytes(self._new_lines))
            self._new_lines.clear()


@dataclass(frozen=True)
class EpisodeRecord:
    """A finished episode; fields as in `EpisodeLog.append`. `kept` says whether its actions are stored."""

    env: int
    episode: int
    seed: int
    step: int
    length: int
    score: float
    prefix: int
    kept: bool
    counts: bool
    _path: Path
    _offset: int
    _dtype: str
    _shape: tuple[int, ...]

    def actions(self) -> np.ndarray:
        """Reads the actions, [length, ...], in their stored type; VeldtError if they are not there."""
        with ActionsFile(self._path.parent) as file:
            return file.read(self)


class ActionsFile:
    """The actions of all episodes of the run in `directory`; the file is opened once, by the first `read`."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ACTIONS
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, record: EpisodeRecord) -> np.ndarray:
        """Returns what `EpisodeRecord.actions` returns, for a record of this run."""
        name = f"episode {record.episode} of env {record.env}"
        if not record.kept:
            raise VeldtError(f"the actions of {name} were not kept: the log had reached its limit")
        dtype = np.dtype(record._dtype).newbyteorder("<")
        wanted = math.prod(record._shape) * dtype.itemsize
        try:
            if self._file is None:
                self._file = open_to_read(self._path)
            # Compared first: a wrong shape must not allocate memory for what is not there.
            is_there = record._offset + wanted <= os.fstat(self._file.fileno()).st_size
            self._file.seek(record._offset if is_there else 0)
            data = self._file.read(wanted if is_there else 0)
        except OSError as error:
            raise VeldtError(
                f"the actions of {name} cannot be read from {self._path}: {error.strerror}"
            ) from error
        if not is_there or len(data) < wanted:
            raise VeldtError(f"{self._path} is truncated: it ends before the actions of {name}")
        return np.frombuffer(data, dtype).reshape(record._shape).astype(record._dtype)


def read_episodes(directory: Path) -> list[EpisodeRecord]:
    """Returns the finished episodes of the run in `directory`, in the order of their ends.

    Skips lines that veldt did not write as they are: the last one is torn if its writer was killed.
    """
    actions = directory / ACTIONS  # made once: a path for each of many episodes takes longer than its line
    records = (_record(actions, row) for row in read_json_lines(directory / EPISODES))
    return [record for record in records if record is not None]


def _record(path: Path, row: dict[str, Any]) -> EpisodeRecord | None:
    counts = {key: row.get(key) for key in _COUNTS}
    score, offset, dtype, shape = (row.get(key, "") for key in ("score", "offset", "dtype", "shape"))
    if not (all(map(_is_count, counts.values())) and isinstance(score, int | float)):
        return None
    kept = offset is not None
    if kept and not (_is_count(offset) and isinstance(dtype, str) and dtype in _STORED and _is_shape(shape)):
        return None
    where: tuple[int, str, tuple[int, ...]] = (offset, dtype, tuple(shape)) if kept else (0, "uint8", (0,))
    fields: dict[str, Any] = counts
    return EpisodeRecord(
        **fields,
        score=score,
        kept=kept,
        counts=row.get("counts") is not False,
        _path=path,
        _offset=where[0],
        _dtype=where[1],
        _shape=where[2],
    )


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= _MOST_AXES and all(map(_is_count, value))


def _is_count(value: Any) -> bool:
    return strict_json.is_count(value, _TOO_MANY)


def smallest(actions: np.ndarray) -> np.ndarray:
    """Returns `actions` contiguous and little-endian; integers in the smallest type that holds them all."""
    kind = actions.dtype.kind
    if kind == "b":
        stored = actions.astype(np.uint8)
    elif kind in "iu":
        low, high = (int(actions.min()), int(actions.max())) if actions.size else (0, 0)
        unsigned = (np.uint8, np.uint16, np.uint32, np.uint64)
        signed = (np.int8, np.int16, np.int32, np.int64)
        types = unsigned if low >= 0 else signed
        stored = actions.astype(next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max))
    elif kind == "f":
        stored = actions
    else:
        raise TypeError(f"actions must be integers or floats, got dtype {actions.dtype}")
    return np.ascontiguousarray(stored, dtype=stored.dtype.newbyteorder("<"))
