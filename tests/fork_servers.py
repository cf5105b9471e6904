"""The server that env processes and roles of the tests are started from."""

from __future__ import annotations

from multiprocessing.context import ForkServerContext

from veldt.runtime.processes import forkserver


def env_context(*more: str) -> ForkServerContext:
    """Returns the context of the server that has loaded what env processes need, and `more` modules if it is new."""
    return forkserver(["veldt.envs.worker", "gymnasium", "veldt.envs.atari", *more])
