"""The settings class of each algorithm and of each system that veldt has, by name."""

from __future__ import annotations

from typing import Any

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.system_registry import SYSTEMS

ALGORITHM_SETTINGS: dict[str, type[Any]] = {name: entry.settings for name, entry in ALGORITHMS.items()}
SYSTEM_SETTINGS: dict[str, type[Any]] = {name: entry.settings for name, entry in SYSTEMS.items()}
