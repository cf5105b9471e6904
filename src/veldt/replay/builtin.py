"""Registers veldt's own sampling strategies. Their module loads numba, so it is imported where a buffer is made."""

from __future__ import annotations

from veldt.replay.sampling_registry import STRATEGIES, SampledRing, SamplingStrategy, StrategyEntry


def _uniform(ring: SampledRing, alpha: float) -> SamplingStrategy:
    from veldt.replay.sampling_strategy import Uniform

    return Uniform(ring)


def _prioritised(ring: SampledRing, alpha: float) -> SamplingStrategy:
    from veldt.replay.sampling_strategy import Prioritised

    return Prioritised(ring, alpha)


STRATEGIES.add("uniform", StrategyEntry(_uniform, uses_priorities=False), __name__)
STRATEGIES.add("prioritised", StrategyEntry(_prioritised, uses_priorities=True), __name__)
