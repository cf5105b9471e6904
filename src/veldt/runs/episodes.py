"""Every finished training game as its seed and its actions, so that any of them can be played again.

episodes.jsonl   one line a game: who played it when, its score, and where its actions are
actions.bin      the actions of all games, raw and little-endian, one game after the other
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt import formatting
from veldt.errors import VeldtError
from veldt.runs import strict_json
from veldt.runs.files import AppendFile, read_json_lines
from veldt.runs.own_names import ACTIONS, EPISODES

_BUFFERED_BYTES = 1 << 20


class EpisodeLog:
    """Writes the finished games of the run in `directory`.

    `resume` is the `position()` of the checkpoint that training goes on from: games finished after it are removed.
    Once `limit_bytes` of actions are kept, games are still listed but their actions are not kept, and `on_warning`
    gets one sentence about it.
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
        self._index = AppendFile(directory / EPISODES, "the list of episodes")
        self._actions = AppendFile(directory / ACTIONS, "the actions of episodes")
        if resume is not None:
            self._index.truncate(resume[0])
            self._actions.truncate(resume[1])
        self._index.drop_torn_line()
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
    ) -> None:
        """Add a finished game.

        `env` and `episode` say whose and which it was, `seed` what its reset was given, `step` the agent steps
        of the run at its end, `length` its agent steps, `score` its sum of raw rewards. `actions` is [length, ...];
        integers are stored in the smallest type that holds them, floats as they are. The first `prefix` of them were
        random, played to spread the start states.
        """
        row: dict[str, Any] = {"env": env, "episode": episode, "seed": seed, "step": step}
        row |= {"length": length, "score": score, "prefix": prefix, "offset": None}
        stored = smallest(actions)
        offset = self._actions.size + len(self._new_actions)
        if offset + stored.nbytes <= self._limit_bytes:
            row |= {"offset": offset, "dtype": stored.dtype.name, "shape": list(stored.shape)}
            self._new_actions += stored.tobytes()
        elif self._on_warning is not None:
            self._on_warning(
                f"the actions of {formatting.size(offset)} of games are kept; those of later games are not, and these "
                "cannot be replayed"
            )
            self._on_warning = None
        self._new_lines += strict_json.dumps(row).encode() + b"\n"
        if len(self._new_lines) + len(self._new_actions) >= _BUFFERED_BYTES:
            self._write()

    def flush(self) -> None:
        """Put everything on the disk; called before each checkpoint. VeldtError if the disk refuses."""
        self._write()
        self._actions.sync()
        self._index.sync()

    def position(self) -> tuple[int, int]:
        """Bytes of `episodes.jsonl` and of `actions.bin` up to here, flushed or not: what a checkpoint stores."""
        return self._index.size + len(self._new_lines), self._actions.size + len(self._new_actions)

    def close(self) -> None:
        """Flush and close; closing twice is allowed."""
        try:
            self._write()
        finally:
            self._actions.close()
            self._index.close()

    def _write(self) -> None:
        # Actions first, so that a kill in between leaves no game listed whose actions are missing.
        if self._new_actions:
            self._actions.append(bytes(self._new_actions))
            self._new_actions.clear()
        if self._new_lines:
            self._index.append(bytes(self._new_lines))
            self._new_lines.clear()


@dataclass(frozen=True)
class EpisodeRecord:
    """A finished game; fields as in `EpisodeLog.append`. `kept` says whether its actions were kept."""

    env: int
    episode: int
    seed: int
    step: int
    length: int
    score: float
    prefix: int
    kept: bool
    _path: Path
    _offset: int
    _dtype: str
    _shape: tuple[int, ...]

    def actions(self) -> np.ndarray:
        """The actions, [length, ...], read now, in the type they are stored in; VeldtError if they are not there."""
        name = f"episode {self.episode} of env {self.env}"
        if not self.kept:
            raise VeldtError(f"the actions of {name} were not kept: the log had reached its limit")
        dtype = np.dtype(self._dtype).newbyteorder("<")
        wanted = int(np.prod(self._shape)) * dtype.itemsize
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(wanted)
        except OSError as error:
            raise VeldtError(
                f"the actions of {name} cannot be read from {self._path}: {error.strerror}"
            ) from error
        if len(data) < wanted:
            raise VeldtError(f"{self._path} is truncated: it ends before the actions of {name}")
        return np.frombuffer(data, dtype).reshape(self._shape).astype(self._dtype)


def read_episodes(directory: Path) -> list[EpisodeRecord]:
    """The finished games of the run in `directory`, in the order they finished; a torn last line is left out."""
    return [_record(directory / ACTIONS, row) for row in read_json_lines(directory / EPISODES)]


def _record(path: Path, row: dict[str, Any]) -> EpisodeRecord:
    kept = row["offset"] is not None
    where = (row["offset"], row["dtype"], tuple(row["shape"])) if kept else (0, "uint8", (0,))
    fields = {key: row[key] for key in ("env", "episode", "seed", "step", "length", "score", "prefix")}
    return EpisodeRecord(**fields, kept=kept, _path=path, _offset=where[0], _dtype=where[1], _shape=where[2])


def smallest(actions: np.ndarray) -> np.ndarray:
    """`actions` contiguous, little-endian, and if they are integers in the smallest type that holds them all."""
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
