"""Flags of the verbs that import code that a run names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RunCode:
    """Which code is imported for a run."""

    env: str | None = None
    """The environment instead of the run's: a Gymnasium id or module:function. The run's --env-kwargs are passed only
    to the environment that the run names."""
    network: str | None = None
    """The network instead of the run's: a name or module:function."""
    core: str | None = None
    """The recurrent core instead of the run's, as module:function."""
    actor: str | None = None
    """The actor instead of the run's, as module:function."""
    critic: str | None = None
    """The critic instead of the run's, as module:function."""
    model: str | None = None
    """The whole network instead of the run's, as module:function."""
    trust: bool = False
    """Import what the run names as module:function, even if you have not trained with it on this machine. That code can
    do all that you can."""

    @property
    def for_load(self) -> dict[str, Any]:
        """The fields as keyword arguments of `veldt.load`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(RunCode)}
