"""What the user sees while the roles of a run are made, which takes long where a reset does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from veldt.tracking.progress import Progress

_SAY_S = 2.0
_SAYS = "still starting: processes are started, and environments are made and reset"


@contextlib.contextmanager
def note_if_start_is_slow(progress: Progress, after_s: float = _SAY_S) -> Iterator[None]:
    """Shows one sentence, if the block takes longer than `after_s` seconds."""
    timer = threading.Timer(after_s, progress.note, (_SAYS,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
