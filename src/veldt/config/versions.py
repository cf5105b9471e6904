"""The versions of the packages on which the results of one run depend: those of its env and of its own code, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium

from veldt.algorithms.schedule_settings import schedule_functions
from veldt.config.run_code import own_names
from veldt.config.train_config import TrainConfig
from veldt.envs.source import ATARI_PREFIX, imported_module
from veldt.registry import plugin_distributions
from veldt.runs.machine import ENGINES, versions
from veldt.user_code.module_files import distribution_of

# Which engine the environments of a package of Gymnasium's own use; the others there use none.
_ENGINES = {
    "gymnasium.envs.mujoco": ("mujoco",),
    "gymnasium.envs.box2d": ("box2d", "box2d-py"),
    "gymnasium.envs.phys2d": ("jax",),
    "gymnasium.envs.tabular": ("jax",),
}


def versions_for_run(config: TrainConfig) -> dict[str, str]:
    """Returns the versions for a run of this configuration. Imports none of the code that it names."""
    names = [*own_names(config).values(), *schedule_functions(config.learn).values()]
    modules = {*config.plugins, *(name.partition(":")[0] for name in names)}
    packages = (plugin_distributions.get(module) or distribution_of(module) for module in sorted(modules))
    return versions_for_env(config.env, config.env_kwargs) | versions(filter(None, packages))


def unversioned_code(config: TrainConfig) -> list[str]:
    """Returns what of a run's code the user can change while all versions stay: the names in the configuration that
    lead to a function or a plug-in, and an environment whose module is no part of an installed package. Imports none of
    this code."""
    named = [*own_names(config).values(), *schedule_functions(config.learn).values(), *config.plugins]
    module = _module_of(config.env)
    is_own_env = imported_module(config.env, config.env_kwargs) is not None or (
        bool(module) and distribution_of(module) is None
    )
    return list(dict.fromkeys([config.env, *named] if is_own_env else named))


def versions_for_env(env: str, env_kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the versions for an environment alone. Imports none of the code that it names."""
    return versions(_packages_of_env(env, env_kwargs))


def _packages_of_env(env: str, env_kwargs: Mapping[str, Any]) -> Iterator[str]:
    if env.startswith(ATARI_PREFIX):
        yield "ale-py"
        return
    made_by = _module_of(env)
    if made_by.startswith("gymnasium.envs."):
        yield from _ENGINES.get(".".join(made_by.split(".")[:3]), ())
    else:  # other code may use any engine that is installed
        yield from ENGINES
    for module in filter(None, (made_by, imported_module(env, env_kwargs))):
        if package := distribution_of(module):
            yield package


def _module_of(env: str) -> str:
    """Returns the module that makes the environments of an id; "" if no module has registered it in this process."""
    spec = gymnasium.registry.get(env)
    if spec is None or spec.entry_point is None:
        return ""
    made_by = spec.entry_point
    return made_by.partition(":")[0] if isinstance(made_by, str) else str(getattr(made_by, "__module__", ""))
