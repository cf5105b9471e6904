"""The flags of the verbs that import what a run names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunCode:
    """What is imported for a run."""

    env: str | None = None
    """The environment instead of the run's: a Gymnasium id or module:function. The run's --env-kwargs go with it if it
    is the one that the run names, and else none."""
    network: str | None = None
    """The network instead of the run's: a name or module:function."""
    trust: bool = False
    """Import what the run names as module:function, though you have not trained with it on this machine. It can do all
    that you can."""
