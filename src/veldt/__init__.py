"""veldt: deep-RL algorithms on any combination of envs, inference, replay and learners.

>>> import veldt
>>> run = veldt.train("ppo", env="CartPole-v1", until=475)
>>> agent = veldt.load(run.path)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from veldt import openmp

if TYPE_CHECKING:
    from veldt.agent import Agent
    from veldt.algorithms.registry import register_algorithm
    from veldt.api import (
        Export,
        Reproduction,
        Run,
        evaluate,
        export,
        list_recipes,
        load,
        record_starts,
        reproduce,
        resume,
        train,
    )
    from veldt.config.system_registry import register_system
    from veldt.errors import CheckpointError, EnvError, NetworkError, PluginError, UsageError, VeldtError
    from veldt.networks.registry import register_network
    from veldt.own_loop import (
        DistributedBuffer,
        Finished,
        GradientServer,
        ModelServer,
        Processes,
        RoleProcess,
        run_roles,
    )
    from veldt.recipes import Recipe, Sourced, register_recipe
    from veldt.replay.sampling_registry import SamplingStrategy, register_sampling_strategy
    from veldt.tracking.callback import Callback, CallbackContext
    from veldt.tracking.loggers.logger import Logger

    __version__: str

# Every process of a run imports this package first; torch loads OpenMP later.
openmp.limit_spinning()

_HOME = {
    "Agent": "veldt.agent",
    **dict.fromkeys(("Callback", "CallbackContext"), "veldt.tracking.callback"),
    "Logger": "veldt.tracking.loggers.logger",
    **dict.fromkeys(
        (
            "Export",
            "Reproduction",
            "Run",
            "evaluate",
            "export",
            "load",
            "list_recipes",
            "record_starts",
            "reproduce",
            "resume",
            "train",
        ),
        "veldt.api",
    ),
    **dict.fromkeys(
        ("CheckpointError", "NetworkError", "EnvError", "PluginError", "UsageError", "VeldtError"),
        "veldt.errors",
    ),
    **dict.fromkeys(
        (
            "DistributedBuffer",
            "Finished",
            "GradientServer",
            "ModelServer",
            "Processes",
            "RoleProcess",
            "run_roles",
        ),
        "veldt.own_loop",
    ),
    "register_algorithm": "veldt.algorithms.registry",
    "register_network": "veldt.networks.registry",
    "register_system": "veldt.config.system_registry",
    **dict.fromkeys(("Recipe", "Sourced", "register_recipe"), "veldt.recipes"),
    **dict.fromkeys(("SamplingStrategy", "register_sampling_strategy"), "veldt.replay.sampling_registry"),
}
__all__ = [
    "Agent",
    "Callback",
    "CallbackContext",
    "CheckpointError",
    "DistributedBuffer",
    "EnvError",
    "Export",
    "Finished",
    "GradientServer",
    "Logger",
    "ModelServer",
    "NetworkError",
    "PluginError",
    "Processes",
    "Recipe",
    "Reproduction",
    "RoleProcess",
    "Run",
    "SamplingStrategy",
    "Sourced",
    "UsageError",
    "VeldtError",
    "evaluate",
    "export",
    "list_recipes",
    "load",
    "record_starts",
    "register_algorithm",
    "register_network",
    "register_recipe",
    "register_sampling_strategy",
    "register_system",
    "reproduce",
    "resume",
    "run_roles",
    "train",
]


def __getattr__(name: str) -> Any:
    # Lazy import: env processes import this package too and must not load torch.
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("veldt")
    raise AttributeError(f"module 'veldt' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
