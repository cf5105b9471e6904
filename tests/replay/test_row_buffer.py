"""The buffer of rows of any kind: what is stored, what is drawn, and priorities that come too late."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.errors import VeldtError
from veldt.replay.batch import ReplayBatch
from veldt.replay.row_buffer import RowBuffer, row_batch_layouts
from veldt.runtime.shared import Layout

ROW = {"number": Layout((), "int64"), "pair": Layout((2,), "float32")}


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    number = np.arange(first, first + count)
    return {"number": number, "pair": np.stack([number, -number], 1).astype(np.float32)}


def append(buffer: RowBuffer, first: int, count: int, priority: float = np.nan) -> None:
    buffer.append(rows(first, count), np.full(count, priority))


def drawn(buffer: RowBuffer, count: int, seed: int = 0) -> ReplayBatch:
    batch = ReplayBatch.allocate(row_batch_layouts(ROW, count))
    buffer.sample(batch, seed)
    return batch


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_newest_rows_are_drawn_whole(alpha: float) -> None:
    buffer = RowBuffer(ROW, 10, alpha)
    for first in range(0, 24, 4):
        append(buffer, first, 4)
        batch = drawn(buffer, 400, first)
        newest = np.arange(max(0, first + 4 - 10), first + 4)
        assert set(batch.arrays["number"]) == set(newest) and len(buffer) == len(newest)
        np.testing.assert_array_equal(batch.key_N, batch.arrays["number"])
        np.testing.assert_array_equal(batch.arrays["pair"][:, 1], -batch.arrays["pair"][:, 0])


def test_rows_are_drawn_in_proportion_to_their_priority() -> None:
    buffer = RowBuffer(ROW, 8, 1.0)
    append(buffer, 0, 4, 1.0)
    buffer.update(np.array([0, 3]), np.array([0.0, 6.0]))
    batch = drawn(buffer, 8000)
    counts = np.bincount(batch.arrays["number"], minlength=4)
    np.testing.assert_allclose(counts / 8000, [0, 1 / 8, 1 / 8, 6 / 8], atol=0.001)
    np.testing.assert_allclose(batch.mass_N, np.array([0, 1, 1, 6])[batch.arrays["number"]], atol=1e-4)


def test_a_row_without_a_priority_gets_the_largest_so_far() -> None:
    buffer = RowBuffer(ROW, 8, 1.0)
    append(buffer, 0, 1, 5.0)
    append(buffer, 1, 1)
    assert drawn(buffer, 2).mass_N.tolist() == pytest.approx([5, 5], abs=1e-4)


def test_priorities_of_overwritten_rows_are_dropped_and_counted() -> None:
    buffer = RowBuffer(ROW, 4, 1.0)
    append(buffer, 0, 4, 1.0)
    keys = drawn(buffer, 4).key_N.copy()
    append(buffer, 4, 2, 1.0)
    buffer.update(keys, np.full(4, 9.0))
    assert buffer.dropped == 2
    after = drawn(buffer, 400)
    assert set(after.mass_N[after.arrays["number"] >= 4].round(3)) == {1.0}


def test_an_invalid_priority_is_refused() -> None:
    with pytest.raises(VeldtError, match="must be finite"):
        append(RowBuffer(ROW, 4, 1.0), 0, 1, -1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.5])
def test_invalid_new_priorities_are_refused_together(bad: float) -> None:
    buffer = RowBuffer(ROW, 4, 1.0)
    append(buffer, 0, 4, 3.0)
    with pytest.raises(
        VeldtError, match=rf"2 of 3 priorities are not allowed, the first is {bad}: .* training has diverged"
    ):
        buffer.update(np.arange(3), np.array([1.0, bad, np.nan], np.float32))
    assert drawn(buffer, 4).mass_N.tolist() == pytest.approx([3] * 4, abs=1e-4), "none of the batch was taken"
