"""Writes checkpoints beside training: their content is copied quickly, and a thread writes it to disk."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundWriter:
    """Runs one write function at a time in a thread. An error in it is raised by the next `check` or `finish`.

    The thread ends with the process: an immediate exit need not wait, because a checkpoint is either whole or absent.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Begins to write; an earlier write must be finished."""
        assert self._thread is None, "what is still being written is not finished"

        def work() -> None:
            try:
                write()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work, name="checkpoint", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether no write is in progress."""
        return self._thread is None or not self._thread.is_alive()

    def check(self) -> None:
        """Raises the error of a finished write, if any."""
        if self.is_done:
            self.finish()

    def finish(self) -> None:
        """Waits for the end of the current write, and raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
