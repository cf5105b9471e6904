"""What every process that applies gradients of several learners does: receives them, and publishes the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from veldt.exchange.parameter_partition import ShardCounts
from veldt.exchange.slots import Arrays, SlotIn
from veldt.exchange.weights import Weights
from veldt.runtime.roles import Control

_WAIT_S = 0.05  # seconds without a heartbeat while no gradient arrives


class GradientHolder(Protocol):
    """Parameters that gradients change; `version` counts their updates."""

    version: int

    def published(self) -> Mapping[str, np.ndarray]:
        """Returns the arrays that readers get."""


class Staleness:
    """How old gradients are: decides which are discarded, and counts.

    Args:
        most: updates that may have been made since a gradient's parameters; 0: any number.
    """

    def __init__(self, most: int, counts: ShardCounts) -> None:
        self._most, self.counts = most, counts

    def admits(self, version: int, base: int) -> bool:
        """Counts a gradient of version `base`, and returns whether parameters of this version may take it."""
        # An incarnation that started from a checkpoint may be behind its learners.
        staleness = max(0, version - base)
        is_stale = 0 < self._most < staleness
        gradients, stale, total = self.counts
        self.counts = ShardCounts(gradients + 1, stale + is_stale, total + staleness)
        return not is_stale


def serve_gradients(
    control: Control,
    holder: GradientHolder,
    apply: Callable[[Arrays], bool],
    incoming: SlotIn,
    out: Weights,
    learners: int,
    publish_every: int = 1,
    at_turn: Callable[[], None] = lambda: None,
) -> None:
    """Applies gradients of so many learners until the role is asked to stop.

    Args:
        apply: makes an update of `holder` by a received gradient; returns False if it is too old, and is discarded.
        at_turn: called after each look for a gradient.
    """
    out.publish(holder.version, holder.published())
    published, any_stale = holder.version, False
    while not control.stopping:
        control.heartbeat()
        # A version that is due is published when no gradient is waiting, or when each learner may have sent one. After
        # a stale gradient it is published at once: else the sender would compute stale ones for ever.
        ahead = holder.version - published
        is_due = ahead >= publish_every or (any_stale and ahead > 0)
        received = incoming.take(0.0 if is_due else _WAIT_S)
        if received is not None:
            any_stale |= not apply(received.arrays)
            incoming.release(received.ring)
        if is_due and (received is None or any_stale or ahead >= publish_every + learners):
            out.publish(holder.version, holder.published())
            published, any_stale = holder.version, False
        at_turn()
