"""Checkpoints written beside training: what they hold is copied in a moment, and the disk takes its time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """Does one piece of writing at a time, in order. What fails in it is raised where the result is next looked at."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Begins to write, when the piece before is finished."""
        self.finish()
        self._pending = self._pool.submit(write)

    def check(self) -> None:
        """Raises what has failed by now."""
        if self._pending is not None and self._pending.done():
            self.finish()

    def finish(self) -> None:
        """Waits for the end of what has been begun."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Waits as well, and then has ended; what failed and was not asked for is lost."""
        self._pool.shutdown()
