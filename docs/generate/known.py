"""The settings class of each algorithm and of each system that veldt has, by name."""

from __future__ import annotations

from typing import Any

from veldt.config.train_config import ALGORITHMS, SYSTEMS

ALGORITHM_SETTINGS: dict[str, type[Any]] = {name: settings for name, (settings, _) in ALGORITHMS.items()}
SYSTEM_SETTINGS: dict[str, type[Any]] = dict(SYSTEMS)
