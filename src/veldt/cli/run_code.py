"""Flags of the verbs that import code that a run names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunCode:
    """Which code is imported for a run."""

    env: str | None = None
    """The environment instead of the run's: a Gymnasium id or module:function. The run's --env-kwargs are passed only
    to the environment that the run names."""
    network: str | None = None
    """The network instead of the run's: a name or module:function."""
    trust: bool = False
    """Import what the run names as module:function, even if you have not trained with it on this machine. That code can
    do all that you can."""
