"""A learner's metrics of its updates, summed since it last sent them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from torch import Tensor

from veldt.systems.roles.messages import LearnerMetrics
from veldt.tracking.metric_names import with_prefix

_SEND_S = 0.5  # seconds between messages with metrics


class UpdateMetrics:
    """Sums metrics of updates until they are taken; only then it waits for the device."""

    def __init__(self) -> None:
        self._sent_at = time.monotonic()
        self.rate = 0.0  # the newest learning rate
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count, self._lag_sum = 0, 0.0
        self._lag_min, self._lag_max = math.inf, -math.inf

    def add(self, metrics: Mapping[str, Tensor], lag: tuple[float, float, float], rate: float) -> None:
        """Adds the metrics of one update; `lag` is its policy lag in updates: mean, minimum and maximum over rows."""
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count, self.rate = self._count + 1, rate
        mean, smallest, largest = lag
        self._lag_sum += mean
        self._lag_min, self._lag_max = min(self._lag_min, smallest), max(self._lag_max, largest)

    @property
    def has_any(self) -> bool:
        return self._count > 0

    @property
    def is_due(self) -> bool:
        return self.has_any and time.monotonic() - self._sent_at > _SEND_S

    def take(self, updates: int, seconds: Mapping[str, float], source: Mapping[str, float]) -> LearnerMetrics:
        """Returns the message with all that was added since the last call, and begins anew."""
        metrics = LearnerMetrics(
            count=self._count,
            sums={with_prefix(name): float(value) for name, value in self._sums.items()},
            lag_sum=self._lag_sum,
            lag_min=float(self._lag_min) if self._count else None,
            lag_max=float(self._lag_max) if self._count else None,
            learning_rate=self.rate,
            updates=updates,
            seconds=dict(seconds),
            source=source,
        )
        self._sent_at = time.monotonic()
        self._clear()
        return metrics
