"""Runs a logger in a thread, so that training does not wait for its imports, its checksums or its network."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from veldt.tracking.loggers.logger import Logger

_QUEUED_CALLS = 1024
_Call = Callable[[Logger], None]


class BackgroundLogger(Logger):
    """The logger that `make` makes in a daemon thread, fed by a bounded queue.

    When the queue is full, calls are dropped and counted; no method but `close` blocks. `problem` is a message after a
    failure, else "".

    Args:
        name: of the logger, for messages.
        close_s: seconds that `close` waits for what is queued.
    """

    def __init__(self, name: str, make: Callable[[], Logger], close_s: float) -> None:
        self.problem = ""
        self._name, self._make, self._close_s = name, make, close_s
        self._dropped = 0
        self._ended = self._abandoned = self._failed = False
        self._calls: queue.Queue[_Call | None] = queue.Queue(_QUEUED_CALLS)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._queue(lambda logger: logger.log_config(config))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._queue(lambda logger: logger.log(step, metrics))

    def log_video(self, step: int, path: Path) -> None:
        self._queue(lambda logger: logger.log_video(step, path))

    def rewind(self, step: int) -> None:
        self._queue(lambda logger: logger.rewind(step))

    def close(self) -> None:
        """Handles what is queued and closes the logger; gives up after `close_s` seconds."""
        end = time.monotonic() + self._close_s
        with contextlib.suppress(queue.Full):
            self._calls.put(None, timeout=self._close_s)
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self._abandoned = True  # it ends after the call that it makes now
            self.problem = (
                f"{self._name} was not done in {self._close_s:g} s: its last rows are in metrics.jsonl only"
            )

    def _queue(self, call: _Call) -> None:
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._dropped += 1
            self.problem = f"{self._name} could not keep up: {self._dropped} rows are in metrics.jsonl only"

    def _work(self) -> None:
        logger: Logger | None = None
        with self._failure_as_problem():
            logger = self._make()
            while (call := self._next()) is not None and not self._abandoned:
                call(logger)
        if logger is not None:
            with self._failure_as_problem():
                logger.close()
        while not self._ended:
            self._next()  # keeps the queue from filling up with calls that nothing will handle

    @contextlib.contextmanager
    def _failure_as_problem(self) -> Iterator[None]:
        """Makes a failure the `problem`, if it is the first one: a full disk, an unreachable server, sys.exit.

        Training continues without this logger.
        """
        try:
            yield
        except BaseException as error:
            if not self._failed and isinstance(error, ImportError):
                package = (error.name or self._name).partition(".")[0]
                self.problem = f"{package} is not installed: the metrics are in metrics.jsonl only"
            elif not self._failed:
                self.problem = f"{self._name} failed: {error}; later metrics are in metrics.jsonl only"
            self._failed = True

    def _next(self) -> _Call | None:
        call = self._calls.get()
        self._ended = call is None
        return call
