"""Ends the copy of a process that an environment forks and that comes back from the environment's code.

It would step the environment, too, and write to the same pipes, shared memory and files as the process itself.
"""

from __future__ import annotations

import functools
import os

# Not empty in a copy, once `watch_forks` was called: the cheapest thing to ask after each step.
FORKED: list[bool] = []


@functools.cache
def watch_forks() -> None:
    """Makes `FORKED` known to the copies of this process. Copies that never come back go on as they were."""
    os.register_at_fork(after_in_child=lambda: FORKED.append(True))


def end_if_copy(process: int, env: object, call: str) -> None:
    """Ends this process at once, with a sentence, unless its id is still `process`."""
    if os.getpid() == process:
        return
    sentence = (
        f"veldt: {type(env).__name__}.{call}() forked its process, and the copy came back from it: the copy ends here, "
        "and the run goes on (end a forked copy by os._exit, or start it with subprocess)\n"
    )
    try:
        os.write(2, sentence.encode())
    finally:
        os._exit(1)
