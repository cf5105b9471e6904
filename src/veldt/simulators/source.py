"""Where an environment comes from: a Gymnasium id, `module:function`, or a callable."""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import gymnasium

from veldt.errors import UsageError

ATARI_PREFIX = "ALE/"


@dataclass(frozen=True)
class EnvSource:
    """How to make the environment, in any process.

    `name` is what is shown and written into the run; `recipe` (cloudpickled, only ever sent to this run's own child
    processes, never stored) makes it where the name alone does not: a callable, or an id registered by the user's own
    script. The factory travels; environments never do.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    recipe: bytes | None = None

    @property
    def is_atari(self) -> bool:
        return self.name.startswith(ATARI_PREFIX)

    def make(self, *, render: bool = False) -> gymnasium.Env[Any, Any]:
        """A new environment. UsageError when it cannot be made; errors of the user's own factory pass through."""
        kwargs = dict(self.kwargs) | ({"render_mode": "rgb_array"} if render else {})
        if self.recipe is not None:
            made = cloudpickle.loads(self.recipe)
            if isinstance(made, gymnasium.envs.registration.EnvSpec):
                return gymnasium.make(made, disable_env_checker=True, **kwargs)
            env = made(**kwargs)
        elif ":" in self.name and not _registered(self.name):
            env = _load_function(self.name)(**kwargs)
        else:
            return _gymnasium_make(self.name, kwargs)
        if not isinstance(env, gymnasium.Env):
            raise UsageError(
                f"{self.name} returned {type(env).__name__}, not a gymnasium.Env: it must return an environment"
            )
        return env


def resolve(
    env: str | Callable[..., gymnasium.Env[Any, Any]], kwargs: Mapping[str, Any] | None = None
) -> EnvSource:
    """The source that `env` names. UsageError, with a suggestion, for an unknown id or function."""
    if not isinstance(env, str):
        if not callable(env):
            raise UsageError(
                f"env must be a Gymnasium id, 'module:function' or a callable returning an environment, "
                f"not {type(env).__name__}"
            )
        return EnvSource(_name_of(env), kwargs or {}, cloudpickle.dumps(env))
    if env.startswith(ATARI_PREFIX):
        _register_atari(env)
    if ":" in env and not _registered(env):
        _load_function(env)
        return EnvSource(env, kwargs or {})
    if not _registered(env):
        raise UsageError(_unknown(env))
    spec = gymnasium.spec(env)
    # An id registered by the running script is unknown to child processes: send them its specification.
    by_script = callable(spec.entry_point) or str(spec.entry_point).startswith("__main__:")
    return EnvSource(env, kwargs or {}, cloudpickle.dumps(_by_value(spec)) if by_script else None)


def _name_of(env: Callable[..., Any]) -> str:
    """`module:function`, in angle brackets where that would not give this callable again."""
    inner: Any = env
    while isinstance(inner, functools.partial):
        inner = inner.func
    module, name = (
        getattr(inner, "__module__", "__main__"),
        getattr(inner, "__qualname__", type(inner).__name__),
    )
    again = getattr(sys.modules.get(module), name, None) is env or "<" in name
    return f"{module}:{name}" if again else f"{module}:<{name}>"


def _by_value(spec: gymnasium.envs.registration.EnvSpec) -> gymnasium.envs.registration.EnvSpec:
    if isinstance(spec.entry_point, str):
        import copy

        spec = copy.deepcopy(spec)
        spec.entry_point = getattr(sys.modules["__main__"], str(spec.entry_point).partition(":")[2])
    return spec


def _registered(env: str) -> bool:
    if env in gymnasium.registry:
        return True
    try:
        gymnasium.spec(env)  # also imports the module of a "module:Id-v0" name
    except (gymnasium.error.Error, ImportError, ValueError):
        return False
    return True


def _register_atari(env: str) -> None:
    try:
        import ale_py
    except ImportError:
        raise UsageError(f"{env} needs ale-py, which is not installed: pip install 'veldt[atari]'") from None
    if not any(name.startswith(ATARI_PREFIX) for name in gymnasium.registry):
        gymnasium.register_envs(ale_py)


def _gymnasium_make(name: str, kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    if name.startswith(ATARI_PREFIX):
        _register_atari(name)
    try:
        # Gymnasium's own checker costs more than a small environment's step; the stepper checks what it must.
        return gymnasium.make(name, disable_env_checker=True, **kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"{name} needs a package that is not installed: {error}") from None
    except gymnasium.error.UnregisteredEnv:
        raise UsageError(_unknown(name)) from None


def _load_function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(
            0, os.getcwd()
        )  # a console script does not have it, and that is where the user's file is
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise UsageError(
            f"no module '{module_name}' for '{name}': write it as module:function, "
            "with the module importable from here or installed"
        ) from None
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        close = difflib.get_close_matches(attribute, known, n=1)
        hint = f" (did you mean '{module_name}:{close[0]}'?)" if close else ""
        raise UsageError(f"module '{module_name}' has no function '{attribute}'{hint}")
    return function


def _unknown(env: str) -> str:
    close = difflib.get_close_matches(env, list(gymnasium.registry), n=1, cutoff=0.4)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    return f"no environment '{env}'{hint}: give a Gymnasium id, such as CartPole-v1 or ALE/Pong-v5, or module:function"
