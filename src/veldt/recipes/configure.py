"""The first step of a run: from the arguments of `veldt.train` to a complete configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from veldt.config.run_code import Env
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import EnvSource, resolve
from veldt.errors import UsageError
from veldt.networks.own import NO_PARTS, OwnParts
from veldt.recipes.draft import NOTHING
from veldt.recipes.overrides import build_config
from veldt.recipes.recipe import find
from veldt.recipes.registration import plugins_of
from veldt.setting_metadata import check_type
from veldt.setting_text import flag
from veldt.user_code.import_path import can_be_loaded, name_of


def configure(
    recipe: str,
    env: Env,
    env_kwargs: Mapping[str, Any],
    algorithm: str | None,
    own: OwnParts,
    settings: Mapping[str, Any],
) -> RunRequest:
    """Returns what to train: the recipe's values for this env and algorithm, with the user's settings in their place.

    Args:
        own: the user's own parts of the network, names or callables.
        settings: any setting of the recipe by name.

    Raises:
        UsageError: the env, the recipe, the algorithm or a setting is unknown, or a value is not allowed.
        EnvError: the env's module failed when it was imported.
    """
    env_kwargs = check_type(flag("env_kwargs"), env_kwargs, Mapping[str, Any])
    source = resolve(env, env_kwargs)
    given = {name: _named_schedule(name, value) for name, value in settings.items()} | own.names()
    config = build_config(find(recipe).draft(source.name, algorithm), given, env_kwargs)
    return request_of(config, source, own.callables(), {name: config.value_of(name) for name in given})


def request_of(
    config: TrainConfig,
    source: EnvSource | None = None,
    own: OwnParts = NO_PARTS,
    given: Mapping[str, Any] = NOTHING,
) -> RunRequest:
    """Returns the request to train with a complete configuration, with the plug-ins and own parts that it depends on.

    Args:
        source, own: the env, and the parts of the network that are callables, if the configuration does not name them.
        given: settings by name that come from the user.
    """
    named: dict[str, Any] = own.names()
    config = dataclasses.replace(
        config, plugins=plugins_of(config), network=dataclasses.replace(config.network, **named)
    )
    return RunRequest(config, source or resolve(config.env, config.env_kwargs), own, {**given, **named})


def _named_schedule(setting: str, value: Any) -> Any:
    """The name of a function that was given as a schedule; other values as they are. UsageError if it has no name."""
    if not callable(value):
        return value
    name = name_of(value)
    if name.startswith("__main__:") or not can_be_loaded(name):
        raise UsageError(
            f"{setting} is the function {name}, which other processes and a resumed run could not import: put it into "
            "a file, and give it as 'module:function'"
        )
    return name
