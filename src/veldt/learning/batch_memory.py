"""The memory into which a local replay buffer writes its batches, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from veldt.replay.batch import ReplayBatch
from veldt.runtime.devices import current_stream
from veldt.runtime.shared import Layout


class BatchMemory:
    """Memory for the batch that a learner uses and for the next.

    On the CPU it is one batch, whose arrays the learner reads where they lie. For a CUDA device it is two in
    page-locked memory, which are used in turn: the device fetches the one by itself while the other is written.
    """

    def __init__(self, layouts: Mapping[str, Layout], device: torch.device) -> None:
        self._device = device
        self._is_fetched = device.type == "cuda"
        make = _page_locked if self._is_fetched else ReplayBatch.allocate
        self._batches = deque(make(layouts) for _ in range(2 if self._is_fetched else 1))
        # Events on the device, in the same order.
        self._fetched: deque[Any] = deque([None] * len(self._batches))

    def next(self) -> ReplayBatch:
        """Returns the memory for the next batch, after the device has fetched what was in it."""
        self._batches.rotate(-1)
        self._fetched.rotate(-1)
        if self._fetched[0] is not None:
            self._fetched[0].synchronize()
        return self._batches[0]

    def copies_are_queued(self) -> None:
        """Says that the copies of the last batch to the device are queued on the current stream."""
        if self._is_fetched:
            self._fetched[0] = current_stream(self._device).record_event()


def _page_locked(layouts: Mapping[str, Layout]) -> ReplayBatch:
    return ReplayBatch({name: _page_locked_array(layout) for name, layout in layouts.items()})


def _page_locked_array(layout: Layout) -> np.ndarray:
    dtype = torch.from_numpy(np.empty(0, layout.dtype)).dtype
    return torch.empty(layout.shape, dtype=dtype, pin_memory=True).numpy()
