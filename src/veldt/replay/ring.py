"""Storage of the replay buffer: one ring of rows for each env, in the order of its steps.

Row r of env b is at position b R + r mod R. A step is one row: the observation before it, and the step's action and
results. A finished or interrupted episode has one more row, which holds its last observation and is not `valid`. A
continuing episode has its newest observation in a row that is not counted yet; the next step completes it. So the
observation after a step is always in the next row, and no return crosses an episode's end.

Each env counts its own rows, because reset steps take none.

A row's key is its position and its generation r // R, so that it stays unique after the row is overwritten:

    key = (r // R) B R + b R + r mod R
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veldt.compiled import njit
from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Rows
from veldt.replay.frames import Store, make_store
from veldt.replay.rows import ROW_FIELDS, STEP_FIELDS, ring_rows


class Change(NamedTuple):
    """The changes of one append, as positions int64 [M] each.

    `removed_M` are no longer sampleable, `added_M` have become sampleable, `step_M` are the new steps, and `slot_M` are
    these steps' indices in the slot, t B + b.
    """

    removed_M: np.ndarray
    added_M: np.ndarray
    step_M: np.ndarray
    slot_M: np.ndarray


class Ring:
    """See the module's docstring. `width` is B, `rows` is R.

    Sampleable are the valid rows from `first` up to `end`, int64 [B]: rows whose `steps` next rows exist, and of these
    the `capacity_per_env` newest. R also includes the frames before the first sampleable row and the rows after the
    last.

        observation  by name         see `frames.Store`
        action       [B, R, ...]     as in the slot, and so are
        reward, terminated, truncated, life_lost, version, episode_step [B, R]
        valid        [B, R] bool     a step, and not an episode's last observation
        head         [B] int64       rows written so far
        open         [B] bool        the newest episode continues
        sampleable   int             number of sampleable rows
        history      int             number of earlier frames in a row's stack

    Args:
        capacity_per_env: maximum number of sampleable rows of each env.
        steps: n of the n-step return.
        compress: whether images are stored compressed.
        threads: threads for making stacks of frames.
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
        self.width, self.capacity_per_env, self.steps = width, capacity_per_env, steps
        self.rows = ring_rows(spec, capacity_per_env, steps)
        self.history = spec.history
        self.observation: dict[str, Store] = {
            name: make_store(field, width, self.rows, compress, threads)
            for name, field in spec.observation.items()
        }
        fields = {name: np.zeros((width, self.rows), dtype) for name, dtype in STEP_FIELDS.items()}
        fields["action"] = np.zeros((width, self.rows, *spec.action.shape), spec.action.dtype)
        self.reward, self.action, self.version = fields["reward"], fields["action"], fields["version"]
        self.terminated, self.truncated = fields["terminated"], fields["truncated"]
        self.life_lost = fields["life_lost"]
        self._step_fields = {name: _flat(array) for name, array in fields.items()}
        self.episode_step, self.valid = (np.zeros((width, self.rows), dtype) for dtype in ROW_FIELDS.values())
        self.head, self.open = np.zeros(width, np.int64), np.zeros(width, bool)
        self._parted = np.zeros(width, bool)
        self.sampleable = 0

    @property
    def end(self) -> np.ndarray:
        return np.maximum(0, self.head - (self.steps - 1))

    @property
    def first(self) -> np.ndarray:
        return np.maximum(0, self.end - self.capacity_per_env)

    def between(self, first_B: np.ndarray, end_B: np.ndarray) -> np.ndarray:
        """Returns the positions of the valid rows from `first_B` up to `end_B`, int64 [M], env by env."""
        return _between(self.valid, first_B, end_B)

    def keys(self, position_N: np.ndarray) -> np.ndarray:
        """Returns the keys of sampleable rows, int64 [N]."""
        return _keys(position_N, self.first, self.rows)

    def positions(self, key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of keys, int64 [N], and whether their rows are still sampleable, bool [N]."""
        return _positions(key_N, self.first, self.end, self.rows)

    def part(self, envs: slice = slice(None)) -> None:
        """Ends the newest episodes of `envs`, with their last observations: the next append does not continue them."""
        self._parted[envs] = True

    def append(self, slot: Rows, first: int = 0) -> Change:
        """Writes a full slot of the envs from `first` on, which must follow the slot appended for them before."""
        part = slice(first, first + slot.width)
        first_B, end_B = self.first, self.end
        position_M, source_M, episode_step_M, slot_M = _place(
            slot.valid,
            slot.is_last,
            slot.episode_step,
            self.head[part],
            self.open[part],
            self._parted[part],
            self.episode_step[part],
            self.history,
        )
        position_M += first * self.rows
        removed_M = self.between(first_B, np.minimum(end_B, self.first))
        is_new_M, is_step_M = source_M >= 0, slot_M >= 0
        for name, store in self.observation.items():
            source = slot.observation[name]
            store.write(position_M[is_new_M], source.reshape(-1, *source.shape[2:]), source_M[is_new_M])
        _flat(self.episode_step)[position_M], _flat(self.valid)[position_M] = episode_step_M, is_step_M
        step_M, slot_M = position_M[is_step_M], slot_M[is_step_M]
        for name, array in self._step_fields.items():
            array[step_M] = _flat(getattr(slot, name))[slot_M]
        added_M = self.between(np.maximum(end_B, self.first), self.end)
        self.sampleable += len(added_M) - len(removed_M)
        return Change(removed_M, added_M, step_M, slot_M)


def _flat(array: np.ndarray) -> np.ndarray:
    """Reshapes [B, R, ...] to [B R, ...]."""
    return array.reshape(-1, *array.shape[2:])


@njit()
def _place(valid, is_last, slot_episode_step, head, open_, parted, episode_step, history):  # type: ignore[no-untyped-def]
    """Computes where the rows of a slot go; advances `head` and `open_`, and clears `parted`.

    Returns:
        For each row, in order, int64 [M] each: its position; the index of its observation in the slot,
        (history + t) B + b, or -1 if the previous slot's last row already stored it; its episode step; the index of its
        step, t B + b, or -1 for an observation without a step.
    """
    steps, width = valid.shape
    rows = episode_step.shape[1]
    most = width * (steps + 1 + history)
    position_M, source_M = np.empty(most, np.int64), np.empty(most, np.int64)
    episode_step_M, slot_M = np.empty(most, np.int64), np.empty(most, np.int64)
    m = 0
    for b in range(width):
        row, goes_on = head[b], open_[b]
        if goes_on and (parted[b] or slot_episode_step[0, b] != episode_step[b, row % rows]):
            row, goes_on = row + 1, False  # the episode was abandoned: keep its last observation
        parted[b] = False
        for t in range(steps + 1):
            is_step = t < steps and valid[t, b]
            if not is_step and not goes_on:
                continue
            # If the slot joins an episode after its start (after random steps, or a resume), the frames that the first
            # stacks need are stored as well.
            before = 0 if goes_on else min(np.int64(slot_episode_step[t, b]), history)
            for back in range(before, -1, -1):
                position_M[m] = b * rows + row % rows
                source_M[m] = -1 if goes_on and t == 0 else (history + t - back) * width + b
                episode_step_M[m] = slot_episode_step[t, b] - back
                slot_M[m] = t * width + b if is_step and back == 0 else -1
                row += 1
                m += 1
            goes_on = is_step
            if t == steps and not is_last[t, b]:
                row, goes_on = row - 1, True  # not counted: the next step completes the row
        head[b], open_[b] = row, goes_on
    return position_M[:m], source_M[:m], episode_step_M[:m], slot_M[:m]


@njit()
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


@njit()
def _keys(position_N, first_B, rows):  # type: ignore[no-untyped-def]
    """See `Ring.keys`; `first_B` are the oldest sampleable rows."""
    key_N = np.empty(len(position_N), np.int64)
    for n in range(len(position_N)):
        b, place = divmod(position_N[n], rows)
        generation, oldest = divmod(first_B[b], rows)
        if place < oldest:
            generation += 1
        key_N[n] = generation * len(first_B) * rows + position_N[n]
    return key_N


@njit()
def _positions(key_N, first_B, end_B, rows):  # type: ignore[no-untyped-def]
    """See `Ring.positions`."""
    position_N, is_there_N = np.empty(len(key_N), np.int64), np.empty(len(key_N), np.bool_)
    for n in range(len(key_N)):
        generation, position = divmod(key_N[n], len(first_B) * rows)
        b, place = divmod(position, rows)
        row = generation * rows + place
        position_N[n], is_there_N[n] = position, first_B[b] <= row < end_B[b]
    return position_N, is_there_N
