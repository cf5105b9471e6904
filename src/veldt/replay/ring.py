"""Storage of the replay buffer: one ring of rows for each env, with its life in it as it was lived.

Row r of env b lies at position b R + r mod R. A step is one row: the observation before it and all that came of
it. An episode that has ended, or was cut off, has one row more, which holds its last observation and is not `valid`;
an episode that goes on has its newest observation in a row that is not counted yet, and which the next step completes.
So the observation after a step is always the next row's, and the return of no step runs across an episode's end.

Each env counts its own rows, for none are spent on the reset steps that reset it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.replay.frames import Store, make_store

_STEP_FIELDS = {
    "reward": "float32",
    "terminated": "bool",
    "truncated": "bool",
    "life_lost": "bool",
    "version": "int32",
}
_ROW_FIELDS = {"age": "int32", "valid": "bool"}
FIELDS = ("action", *_STEP_FIELDS, *_ROW_FIELDS)  # all that a row has besides its observation


class Change(NamedTuple):
    """What an append has changed: positions, int64 [M] each.

    Rows that are sampleable no longer; those that have become it; and the new steps, with their places in the slot,
    t B + b.
    """

    removed_M: np.ndarray
    added_M: np.ndarray
    step_M: np.ndarray
    slot_M: np.ndarray


class Ring:
    """See the module's text. `width` is B, `rows` is R.

    Sampleable are the valid rows from `first` up to `end`, int64 [B]: those whose `steps` next rows are there, and of
    these the `capacity_per_env` newest. Around them R has room for the frames before the first and the rows after the last.

        observation  by name         see `frames.Store`
        action       [B, R, ...]     as in the slot, and so are
        reward, terminated, truncated, life_lost, version, age [B, R]
        valid        [B, R] bool     a step, and not an episode's last observation
        head         [B] int64       rows written so far
        open         [B] bool        the newest episode goes on
        sampleable   int             how many rows are sampleable
        history      int             frames before its own in a row's stack

    Args:
        share: rows that can be sampled, of each env.
        steps: n of the n-step return.
        compress: whether images are stored compressed.
        threads: for making stacks of frames.
    """

    def __init__(
        self,
        spec: EnvSpec,
        width: int,
        capacity_per_env: int,
        steps: int,
        compress: bool = False,
        threads: int = 1,
    ) -> None:
        self.width, self.share, self.steps = width, capacity_per_env, steps
        self.rows = ring_rows(spec, capacity_per_env, steps)
        self.history = spec.history
        self.observation: dict[str, Store] = {
            name: make_store(field, width, self.rows, compress, threads)
            for name, field in spec.observation.items()
        }
        fields = {name: np.zeros((width, self.rows), dtype) for name, dtype in _STEP_FIELDS.items()}
        fields["action"] = np.zeros((width, self.rows, *spec.action.shape), spec.action.dtype)
        self.reward, self.action, self.version = fields["reward"], fields["action"], fields["version"]
        self.terminated, self.truncated = fields["terminated"], fields["truncated"]
        self.life_lost = fields["life_lost"]
        self._step_fields = {name: _flat(array) for name, array in fields.items()}
        self.age, self.valid = (np.zeros((width, self.rows), dtype) for dtype in _ROW_FIELDS.values())
        self.head, self.open = np.zeros(width, np.int64), np.zeros(width, bool)
        self._parted = np.zeros(width, bool)
        self.sampleable = 0

    @property
    def end(self) -> np.ndarray:
        return np.maximum(0, self.head - (self.steps - 1))

    @property
    def first(self) -> np.ndarray:
        return np.maximum(0, self.end - self.share)

    def between(self, first_B: np.ndarray, end_B: np.ndarray) -> np.ndarray:
        """Positions of the valid rows from `first_B` up to `end_B`, int64 [M], env by env."""
        return _between(self.valid, first_B, end_B)

    def part(self) -> None:
        """What is appended next does not go on where the newest episodes are: their last observations are there."""
        self._parted[:] = True

    def append(self, slot: Rows, first: int = 0) -> Change:
        """Writes a full slot of envs `first` and on, the one that follows what was appended of them before."""
        part = slice(first, first + slot.width)
        first_B, end_B = self.first, self.end
        position_M, source_M, age_M, slot_M = _place(
            slot.valid,
            slot.ended,
            slot.age,
            self.head[part],
            self.open[part],
            self._parted[part],
            self.age[part],
            self.history,
        )
        position_M += first * self.rows
        left_M = self.between(first_B, np.minimum(end_B, self.first))
        is_new_M, is_step_M = source_M >= 0, slot_M >= 0
        for name, store in self.observation.items():
            source = slot.observation[name]
            store.write(position_M[is_new_M], source.reshape(-1, *source.shape[2:]), source_M[is_new_M])
        _flat(self.age)[position_M], _flat(self.valid)[position_M] = age_M, is_step_M
        step_M, slot_M = position_M[is_step_M], slot_M[is_step_M]
        for name, array in self._step_fields.items():
            array[step_M] = _flat(getattr(slot, name))[slot_M]
        came_M = self.between(np.maximum(end_B, self.first), self.end)
        self.sampleable += len(came_M) - len(left_M)
        return Change(left_M, came_M, step_M, slot_M)


def ring_rows(spec: EnvSpec, share: int, steps: int) -> int:
    """R: `capacity_per_env` rows with the frames before the oldest, and `steps` rows after the newest (one is among the share)."""
    return share + steps + spec.history


def row_bytes(spec: EnvSpec) -> int:
    """What one row takes."""
    arrays = [(field.shape, field.dtype) for field in spec.observation.values()]
    arrays.append((spec.action.shape, spec.action.dtype))
    arrays += [((), dtype) for dtype in (*_STEP_FIELDS.values(), *_ROW_FIELDS.values())]
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays)


def _flat(array: np.ndarray) -> np.ndarray:
    """[B, R, ...] as [B R, ...]."""
    return array.reshape(-1, *array.shape[2:])


@numba.njit(nogil=True, cache=True)
def _place(valid, ended, slot_age, head, open_, parted, age, history):  # type: ignore[no-untyped-def]
    """Where the rows of a slot go; moves `head` and `open_` on, and clears `parted`.

    Returns:
        Of each row, in order: its position; where its observation is in the slot, (history + t) B + b, or -1 if it was
        the last slot's last, and is there; its age; where its step is, t B + b, or -1 for an observation alone. int64
        [M] each.
    """
    steps, width = valid.shape
    rows = age.shape[1]
    most = width * (steps + 1 + history)
    position_M, source_M = np.empty(most, np.int64), np.empty(most, np.int64)
    age_M, slot_M = np.empty(most, np.int64), np.empty(most, np.int64)
    m = 0
    for b in range(width):
        row, goes_on = head[b], open_[b]
        if goes_on and (parted[b] or slot_age[0, b] != age[b, row % rows]):
            row, goes_on = row + 1, False  # its episode was given up since: its last observation is there
        parted[b] = False
        for t in range(steps + 1):
            is_step = t < steps and valid[t, b]
            if not is_step and not goes_on:
                continue
            # An episode that the slot joins after its start (after random steps, or a resume) brings the frames that
            # its first stacks need.
            before = 0 if goes_on else min(np.int64(slot_age[t, b]), history)
            for back in range(before, -1, -1):
                position_M[m] = b * rows + row % rows
                source_M[m] = -1 if goes_on and t == 0 else (history + t - back) * width + b
                age_M[m] = slot_age[t, b] - back
                slot_M[m] = t * width + b if is_step and back == 0 else -1
                row += 1
                m += 1
            goes_on = is_step
            if t == steps and not ended[t, b]:
                row, goes_on = row - 1, True  # not counted: the next step completes it
        head[b], open_[b] = row, goes_on
    return position_M[:m], source_M[:m], age_M[:m], slot_M[:m]


@numba.njit(nogil=True, cache=True)
def _between(valid, first_B, end_B):  # type: ignore[no-untyped-def]
    width, rows = valid.shape
    position_M = np.empty(np.maximum(0, end_B - first_B).sum(), np.int64)
    m = 0
    for b in range(width):
        for row in range(first_B[b], end_B[b]):
            if valid[b, row % rows]:
                position_M[m] = b * rows + row % rows
                m += 1
    return position_M[:m]
