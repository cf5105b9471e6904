"""The server that env processes and roles of the tests are started from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from multiprocessing.context import ForkServerContext
from typing import Any

from veldt.runtime.processes import Child, forkserver


def env_context(*more: str) -> ForkServerContext:
    """Returns the context of the server that has loaded what env processes need, and `more` modules if it is new."""
    return forkserver(["veldt.envs.worker", "gymnasium", "veldt.envs.atari", *more])


def answers(function: Callable[..., None], each: Iterable[tuple[Any, ...]]) -> list[bytes]:
    """Returns what `function(pipe, *arguments)` sends first in a process of its own, for each of the arguments.

    The processes work side by side. Of one that sends nothing it is b"".
    """
    children = [
        Child(env_context(), f"{function.__name__} {number}", function, *arguments)
        for number, arguments in enumerate(each)
    ]
    try:
        return [child.receive(100.0) or b"" for child in children]
    finally:
        for child in children:
            child.kill()
