"""Checkpoints written beside training: what they hold is copied in a moment, and the disk takes its time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundWriter:
    """Does one piece of writing at a time. What fails in it is raised where it is next looked at.

    Its thread ends with the process: whoever must end at once need not wait, for what is written is whole or not there.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Begins to write; what was begun before must be finished."""
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
        """Whether nothing is being written."""
        return self._thread is None or not self._thread.is_alive()

    def check(self) -> None:
        """Raises what has failed by now."""
        if self.is_done:
            self.finish()

    def finish(self) -> None:
        """Waits for the end of what has been begun."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
