"""The command that trains a run again, from the settings that its user gave."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from veldt.config.run_code import own_names
from veldt.config.train_config import SECTIONS, TrainConfig
from veldt.recipes import RECIPES
from veldt.setting_text import as_words

# What is measured where it is not given, and decides rounding.
_MEASURED = ("precision", "threads")


def training_command(config: TrainConfig, run: Mapping[str, Any]) -> str:
    """Returns `veldt train ...`. The environment and the user's own parts are named as the run names them.

    Args:
        run: the run's config.json.
    """
    words = ["veldt", "train", config.recipe, "--env", config.env]
    if config.env_kwargs:
        words += as_words("env_kwargs", config.env_kwargs)
    recipe = RECIPES.get(config.recipe)
    if recipe is None or recipe.algorithm != config.algorithm:
        words += ["--algorithm", config.algorithm]
    for plugin in config.plugins:
        words += ["--plugin", plugin]
    given, resolved = run.get("given", {}), run["resolved"].get("run")
    decided = resolved if isinstance(resolved, dict) else {}
    settings: dict[str, Any] = {}
    for section in SECTIONS:
        part = given.get(section)
        settings |= part if isinstance(part, dict) else {}
    settings = own_names(config) | settings  # those that were callables were not given as settings
    measured = {name: decided[name] for name in _MEASURED if name in decided}
    for name, value in (settings | {"seed": config.run.seed} | measured).items():
        words += as_words(name, value)
    return shlex.join(words)
