"""A learner's metrics of its updates, summed since it last sent them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from veldt.systems.roles.messages import LearnerMetrics

_SEND_S = 0.5  # seconds between messages with metrics


class UpdateMetrics:
    """Sums metrics of updates until they are taken; only then it waits for the device."""

    def __init__(self) -> None:
        self._sent_at = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count, self._lag_sum, self._rate = 0, 0.0, 0.0
        self._lag_min, self._lag_max = np.inf, -np.inf

    def add(self, metrics: Mapping[str, Tensor], lag_N: np.ndarray, rate: float) -> None:
        """Adds the metrics of one update; `lag_N` are the updates since the versions that acted."""
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count, self._rate = self._count + 1, rate
        self._lag_sum += float(lag_N.mean())
        self._lag_min, self._lag_max = min(self._lag_min, lag_N.min()), max(self._lag_max, lag_N.max())

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
            sums={name: float(value) for name, value in self._sums.items()},
            lag_sum=self._lag_sum,
            lag_min=float(self._lag_min),
            lag_max=float(self._lag_max),
            learning_rate=self._rate,
            updates=updates,
            seconds=dict(seconds),
            source=source,
        )
        self._sent_at = time.monotonic()
        self._clear()
        return metrics
