"""Converts a replay buffer to arrays for storage, and back: rows, which never change once written, and other state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from veldt.replay.buffer import ReplayBuffer
from veldt.replay.compressed import CompressedRows
from veldt.replay.frames import RawRows
from veldt.replay.rows import FIELDS

_SAMPLING = "sampling/"  # before the names of the sampling strategy's arrays


def stored_rows(buffer: ReplayBuffer, since_B: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Returns each env's rows from `since_B` on, and its newest observation, as lists of arrays named `b/field`.

    Observations are views of the replay buffer, valid until the ring overwrites them (compressed ones are copies). All
    other arrays, and the newest observation, which the next step may replace, are copies.
    """
    ring = buffer.ring
    arrays: dict[str, list[np.ndarray]] = {}
    first_B, head_B = oldest(buffer, since_B).tolist(), ring.head.tolist()
    for b, (first, head) in enumerate(zip(first_B, head_B, strict=True)):
        for field in FIELDS:
            pieces = _pieces(getattr(ring, field)[b], first, head + 1)
            arrays[f"{b}/{field}"] = [piece.copy() for piece in pieces]
        for name, store in ring.observation.items():
            arrays[f"{b}/observation/{name}"] = (
                [_packed(store, b, ring.rows, first, head + 1)]
                if isinstance(store, CompressedRows)
                else _settled_pieces(cast(RawRows, store).array[b], first, head)
            )
    return arrays


def restore_rows(buffer: ReplayBuffer, first_B: np.ndarray, name: str, array: np.ndarray) -> None:
    """Restores one array of `stored_rows`, whose rows begin at `first_B`. Older rows must be restored before.

    KeyError or ValueError if it does not belong to this replay buffer.
    """
    ring = buffer.ring
    number, field, *rest = name.split("/", 2)
    b = int(number)
    if not 0 <= b < len(first_B):
        raise ValueError(f"it has rows of env {b}")
    first = int(first_B[b])
    if not rest:
        if field not in FIELDS:
            raise ValueError(f"it has rows of {field}")
        _put(getattr(ring, field)[b], first, array)
        return
    store = ring.observation[rest[0]]
    if isinstance(store, CompressedRows):
        _unpack(store, b, ring.rows, first, array)
    elif isinstance(store, RawRows):
        _put(store.array[b], first, array)


def oldest(buffer: ReplayBuffer, since_B: np.ndarray) -> np.ndarray:
    """Returns the first rows from `since_B` on that the ring still has."""
    return np.maximum(since_B, buffer.ring.head + 1 - buffer.ring.rows)


def state(buffer: ReplayBuffer) -> dict[str, np.ndarray]:
    """Returns a copy of the state that changes: counters and current priorities."""
    arrays = {"head": buffer.ring.head.copy(), "open": buffer.ring.open.copy()}
    arrays["dropped"] = np.array(buffer.dropped)
    arrays |= {f"{_SAMPLING}{name}": array for name, array in buffer.index.state().items()}
    if buffer.priority is not None:
        arrays["priority"] = buffer.priority.copy()
    return arrays


def restore_state(buffer: ReplayBuffer, arrays: Mapping[str, Any]) -> None:
    """Restores what `state` returned, after all rows. KeyError or ValueError if it is not of this replay buffer."""
    ring = buffer.ring
    ring.head[:], ring.open[:] = arrays["head"], arrays["open"]
    ring.sampleable = len(ring.between(ring.first, ring.end))
    buffer.dropped = int(arrays["dropped"])
    of_strategy = {
        name.removeprefix(_SAMPLING): array for name, array in arrays.items() if name.startswith(_SAMPLING)
    }
    # Checkpoints of older versions have the arrays of prioritised sampling, without the prefix.
    of_older = {name: arrays[name] for name in ("leaves", "largest") if name in arrays}
    buffer.index.restore(of_strategy or of_older)
    if "priority" in arrays:
        buffer.priority = np.array(arrays["priority"])


def _pieces(array_R: np.ndarray, first: int, last: int) -> list[np.ndarray]:
    """Returns rows `first` up to `last` (not included) of a ring, in one array or two."""
    rows = len(array_R)
    begin, count = first % rows, last - first
    head = array_R[begin : min(rows, begin + count)]
    return [head, array_R[: count - len(head)]] if len(head) < count else [head]


def _settled_pieces(array_R: np.ndarray, first: int, head: int) -> list[np.ndarray]:
    """Returns rows `first` to `head`, with a copy of the last row."""
    newest = array_R[head % len(array_R)][None].copy()
    return [*_pieces(array_R, first, head), newest] if head > first else [newest]


def _packed(store: CompressedRows, b: int, rows: int, first: int, last: int) -> np.ndarray:
    """Returns the compressed rows one after the other, uint8, each after its length (four bytes, little-endian)."""
    packed = [store.row_P[b * rows + row % rows] or b"" for row in range(first, last)]
    return np.frombuffer(b"".join(len(row).to_bytes(4, "little") + row for row in packed), np.uint8)


def _unpack(store: CompressedRows, b: int, rows: int, first: int, array: np.ndarray) -> None:
    data, offset, row = array.tobytes(), 0, first
    while offset < len(data):
        end = offset + 4 + int.from_bytes(data[offset : offset + 4], "little")
        store.row_P[b * rows + row % rows] = data[offset + 4 : end] or None
        offset, row = end, row + 1


def _put(array_R: np.ndarray, first: int, source: np.ndarray) -> None:
    """Writes rows into a ring, from row `first` on."""
    if source.shape[1:] != array_R.shape[1:] or len(source) > len(array_R) or source.dtype != array_R.dtype:
        raise ValueError(
            f"rows are {source.dtype} {source.shape}, and the buffer's {array_R.dtype} {array_R.shape}"
        )
    begin = first % len(array_R)
    room = len(array_R) - begin
    array_R[begin : begin + len(source)] = source[:room]
    array_R[: max(0, len(source) - room)] = source[room:]
