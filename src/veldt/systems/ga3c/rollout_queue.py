"""What trainers take from the training queue: all rollouts that are there, side by side."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from veldt.envs.spec import EnvSpec
from veldt.exchange.slots import ReceivedSlot, SlotIn
from veldt.sampling.unrolls import Unrolls


@dataclass(frozen=True)
class QueueStats:
    """Since the queue began: so many `rollouts`, in so many `batches`, which `waiting` of them had waited for."""

    rollouts: int = 0
    batches: int = 0
    waiting: int = 0

    def __sub__(self, before: QueueStats) -> QueueStats:
        return QueueStats(
            self.rollouts - before.rollouts, self.batches - before.batches, self.waiting - before.waiting
        )


class RolloutQueue:
    """The consumer's end of the queue, for several threads.

    Args:
        least: rollouts that are waited for before any are taken.
    """

    def __init__(self, incoming: SlotIn, spec: EnvSpec, least: int, device: torch.device) -> None:
        self._incoming, self._spec, self._least, self._device = incoming, spec, least, device
        self._lock = threading.Lock()
        self._held: list[ReceivedSlot] = []  # too few yet
        self.stats = QueueStats()

    def take(self, deadline_s: float) -> Unrolls | None:
        """Copies of all rollouts that are there, which free their places; None while there are too few.

        Thread after thread: places become free in the order in which they were filled.
        """
        with self._lock:
            self._hold_all(0.0)
            waiting = len(self._held)
            if waiting < self._least:
                self._hold_all(deadline_s)
            if len(self._held) < self._least:
                return None
            unrolls = Unrolls.stack(self._spec, [one.arrays for one in self._held], self._device)
            for one in self._held:
                self._incoming.release(one.ring)
            done = self.stats
            self.stats = QueueStats(done.rollouts + len(self._held), done.batches + 1, done.waiting + waiting)
            self._held = []
            return unrolls

    def _hold_all(self, deadline_s: float) -> None:
        """Takes all that are there once one is."""
        slot = self._incoming.take(deadline_s)
        while slot is not None:
            self._held.append(slot)
            slot = self._incoming.take(0.0)
