"""The trainers' end of the training queue: a trainer takes all rollouts that are there as one batch, or one of them."""

from __future__ import annotations

import threading

import torch

from veldt.envs.spec import EnvSpec
from veldt.exchange.queue_stats import QueueStats
from veldt.exchange.slots import ReceivedSlot, SlotIn
from veldt.sampling.unrolls import Unrolls


class RolloutQueue:
    """The consumer's end of the queue, for several threads. `stats` counts the rollouts since it was made.

    Args:
        least: rollouts that a batch has at least.
        most: rollouts that a batch has at most; None: all that are there.
    """

    def __init__(
        self, incoming: SlotIn, spec: EnvSpec, least: int, device: torch.device, most: int | None = None
    ) -> None:
        self._incoming, self._spec, self._device = incoming, spec, device
        self._least, self._most = least, most
        self._lock = threading.Lock()
        self._held: list[ReceivedSlot] = []  # received, but not yet in a batch; the oldest first
        self.stats = QueueStats()

    def take(self, deadline_s: float) -> Unrolls | None:
        """Returns copies of the oldest rollouts that are there, all or `most`, and frees their slots; None while there
        are too few.

        One thread at a time: slots must be freed in the order in which they were filled.
        """
        with self._lock:
            self._hold_all(0.0)
            waiting = len(self._held)
            if waiting < self._least:
                self._hold_all(deadline_s)
            if len(self._held) < self._least:
                return None
            most = self._most or len(self._held)
            batch, self._held = self._held[:most], self._held[most:]
            unrolls = Unrolls.stack(self._spec, [one.arrays for one in batch], self._device)
            for one in batch:
                self._incoming.release(one.ring)
            self.stats = self.stats.plus(len(batch), waiting)
            return unrolls

    def _hold_all(self, deadline_s: float) -> None:
        """Waits for a first slot, then takes all that are full."""
        slot = self._incoming.take(deadline_s)
        while slot is not None:
            self._held.append(slot)
            slot = self._incoming.take(0.0)
