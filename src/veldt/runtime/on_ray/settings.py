"""What Ray is told by way of the environment and its own constants, before anything of it runs."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
from collections.abc import Iterator
from typing import Any

# Of itself, a node that Ray starts here has its workers stand back behind all else, for minutes where that is busy.
WORKER_NICENESS = ("RAY_worker_niceness", "0")


def quiet() -> None:
    """No calls home, no hints, and not a page for each role that dies: must come before Ray is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what its warning asks for
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")


@contextlib.contextmanager
def token(fresh: bool) -> Iterator[None]:
    """Token authentication, unless the user says otherwise by RAY_AUTH_MODE; with a token of its own where `fresh`."""
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    if fresh:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    else:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    forget()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        forget()


def forget() -> None:
    """Ray keeps what it has read of the environment; from now on it reads it again."""
    raylet = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Ray takes 127.0.0.1, where it is given, for this machine's address on the network; in here it does not.

    (A node whose address is 127.0.0.1 is listened for on it only.)
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
