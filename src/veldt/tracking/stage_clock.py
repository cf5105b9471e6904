"""The stages of training, and a clock that measures wall seconds per stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

STAGES = ("simulate", "infer", "replay", "train", "evaluate", "wait")  # in display order


class StageClock:
    """Counts wall seconds per stage. `simulate` is the time that the loop waited for envs (or stepped them)."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - begin
