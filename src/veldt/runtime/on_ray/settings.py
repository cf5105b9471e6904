"""Settings of Ray by environment variables and its own constants, made before any part of it runs."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
from collections.abc import Iterator
from typing import Any

# By default, workers of a node that Ray starts here have low priority, and wait for minutes on a busy machine.
WORKER_NICENESS = ("RAY_worker_niceness", "0")


def quiet() -> None:
    """Turns off usage statistics, hints, and the long log of each dead role; call it before Ray is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as Ray's warning recommends
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")


@contextlib.contextmanager
def token(fresh: bool) -> Iterator[None]:
    """Enables token authentication unless the user sets RAY_AUTH_MODE; with a new token if `fresh`."""
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
    """Makes Ray read the environment again, of which it caches the settings."""
    raylet = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """In this block, Ray does not replace the address 127.0.0.1 by this machine's address on the network.

    (A node with the address 127.0.0.1 listens on it only.)
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
