"""The message when the process that did the work was killed or ended without an explanation."""

from __future__ import annotations

import mmap
import signal
from pathlib import Path

from veldt.runs.directory import RunDirectory
from veldt.runs.resume_hint import how_to_resume
from veldt.runtime import activity
from veldt.runtime.endings import how_it_ended

# Signals for which faulthandler prints a stack, with --debug.
_SHOWN = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)


def what_happened(memory: mmap.mmap, code: int, arguments: list[str]) -> list[str]:
    """Returns lines for the user; the first is one sentence.

    Args:
        memory: the shared block that the process wrote its activity to (`runtime/activity`).
        code: the exit code of the process, -N after signal N.
        arguments: of the command line.
    """
    doing, how = activity.last(memory), how_it_ended(code)
    if (chosen := activity.chosen_end(memory)) is not None:
        if chosen:  # its reason was printed
            return [f"veldt: after its failure, as its process ended, it {how}"]
        return [f"veldt: all was done, but as its process ended it {how}"]
    what = f"{doing.what}: the process {how}" if doing else f"its process {how} in the middle of its work"
    hints = []
    if -code in _SHOWN and "--debug" not in arguments:
        hints.append("--debug shows where")
    # The other verbs have no such flags.
    if doing and doing.can_be_apart and "train" in arguments[:2]:
        hints.append("--env-backend workers --on-env-error restart continues after it")
    lines = [f"veldt: {'; '.join([what, ', and '.join(hints)] if hints else [what])}"]
    run = activity.run_of(memory)
    if run and (note := how_to_resume(RunDirectory(Path(run)))):
        lines.append(note)
    return lines
