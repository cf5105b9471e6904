"""Where the time goes: wall seconds by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from veldt.tracking.stages import STAGES


class StageClock:
    """Counts wall seconds spent in each stage. `simulate` is time the loop waited for envs (or stepped them)."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - begin
