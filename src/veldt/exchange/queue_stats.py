"""Counts of a queue that is emptied in batches: how large they are, and how long the queue is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueStats:
    """Totals so far: items taken, the batches of them, and items `waiting`, summed over the moments of taking one."""

    items: int = 0
    batches: int = 0
    waiting: int = 0

    def plus(self, items: int, waiting: int) -> QueueStats:
        """Returns the totals after one more batch, of `items` out of those `waiting`."""
        return QueueStats(self.items + items, self.batches + 1, self.waiting + waiting)

    def __sub__(self, before: QueueStats) -> QueueStats:
        return QueueStats(
            self.items - before.items, self.batches - before.batches, self.waiting - before.waiting
        )

    @property
    def mean_batch_size(self) -> float:
        return self.items / max(1, self.batches)

    @property
    def mean_waiting(self) -> float:
        return self.waiting / max(1, self.batches)
