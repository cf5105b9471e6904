"""What the user asks for: a complete configuration, and objects such as callables, which only this process can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veldt.config.train_config import TrainConfig
from veldt.envs.source import EnvSource
from veldt.networks.own import NO_PARTS, OwnParts


@dataclass(frozen=True)
class RunRequest:
    """A run as the user asks for it; `systems.planning.run_plan` decides what `config` leaves to `auto`.

    Args:
        source: makes the env that `config` names.
        own: the user's own parts of the network that are callables.
        given: the settings, by name, that come from the user and not from the recipe.
        given_before: those that the user gave when a run was started that is resumed: they were accepted then.
        repeats: the run that is trained again with the plan that it had; None for any other run.
    """

    config: TrainConfig
    source: EnvSource
    own: OwnParts = NO_PARTS
    given: Mapping[str, Any] = field(default_factory=dict)
    given_before: Mapping[str, Any] = field(default_factory=dict)
    repeats: Path | None = None
