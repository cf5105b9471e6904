"""What is said when the process that did the work was killed, or ended without saying why."""

from __future__ import annotations

import mmap
import signal
from pathlib import Path

from veldt.runs.resume_hint import how_to_go_on
from veldt.runtime import activity
from veldt.runtime.endings import how_it_ended

# Those of which Python says where they came, if it is asked to.
_SHOWN = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)


def what_happened(memory: mmap.mmap, code: int, arguments: list[str]) -> list[str]:
    """Lines for the user, the first of them one sentence.

    Args:
        memory: what the process wrote there (`runtime/activity`).
        code: its exit code, -N after the signal N.
        arguments: the command line's.
    """
    doing, how = activity.last(memory), how_it_ended(code)
    if activity.chosen_end(memory) is not None:
        return [f"veldt: all was done, but as its process ended it {how}"]
    what = f"{doing.what}, which {how}" if doing else f"its process {how} in the middle of its work"
    hints = []
    if -code in _SHOWN and "--debug" not in arguments:
        hints.append("--debug shows where")
    # The other verbs take none of these.
    if doing and doing.can_be_apart and "train" in arguments[:2]:
        hints.append("--env-backend workers --on-env-error restart goes on past it")
    lines = [f"veldt: {'; '.join([what, ', and '.join(hints)] if hints else [what])}"]
    run = activity.run_of(memory)
    if run and (note := how_to_go_on(Path(run))):
        lines.append(note)
    return lines
