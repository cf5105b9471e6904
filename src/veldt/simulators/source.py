"""Where an environment comes from: a Gymnasium id, `module:function`, or a callable."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import gymnasium

from veldt.by_name import load_function
from veldt.errors import UsageError, did_you_mean

ATARI_PREFIX = "ALE/"
_RENDERS = (
    "let it take the keyword argument `render_mode`, which is 'rgb_array' for a video, and render accordingly"
)


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
        """A new environment; with `render`, one whose `render()` gives pictures, uint8 [H, W, 3].

        Raises:
            UsageError: it cannot be made, or not so that it renders. Errors of the user's own factory pass through.
        """
        try:
            env = self._make(render)
        except TypeError as error:
            if render and "render_mode" in str(error):
                raise UsageError(f"{self.name} cannot show its games: {error}; {_RENDERS}") from None
            raise
        if not isinstance(env, gymnasium.Env):
            raise UsageError(
                f"{self.name} returned {type(env).__name__}, not a gymnasium.Env: it must return an environment"
            )
        if render and env.render_mode != "rgb_array":
            mode = env.render_mode
            env.close()
            raise UsageError(f"{self.name} cannot show its games: its render_mode is {mode!r}; {_RENDERS}")
        return env

    def _make(self, render: bool) -> Any:
        rendering = {"render_mode": "rgb_array"} if render else {}
        if self.recipe is None and not (":" in self.name and not _registered(self.name)):
            return _gymnasium_make(self.name, {**self.kwargs, **rendering})
        made = cloudpickle.loads(self.recipe) if self.recipe else load_function(self.name, "environment")
        if isinstance(made, gymnasium.envs.registration.EnvSpec):
            return _gymnasium_make(made, {**self.kwargs, **rendering})
        # A factory that has no such parameter may have decided by itself to render.
        return made(**self.kwargs, **(rendering if _takes(made, rendering) else {}))


def resolve(
    env: str | Callable[..., gymnasium.Env[Any, Any]], kwargs: Mapping[str, Any] | None = None
) -> EnvSource:
    """The source that `env` names, with the keyword arguments that make it.

    Raises:
        UsageError: an id or function is unknown (with a suggestion), or `kwargs` would not be read.
    """
    if not isinstance(env, str):
        if not callable(env):
            raise UsageError(
                f"env must be a Gymnasium id, 'module:function' or a callable returning an environment, "
                f"not {type(env).__name__}"
            )
        return EnvSource(_name_of(env), kwargs or {}, cloudpickle.dumps(env))
    if env.startswith(ATARI_PREFIX):
        _register_atari(env)
        if kwargs:
            raise UsageError(
                f"--env-kwargs is {dict(kwargs)}, and {env} is played natively, with flags of its own "
                "(--sticky-actions, --frame-skip, --full-action-space, ...): leave it out, or give a function that "
                "makes the environment, as module:function"
            )
    if ":" in env and not _registered(env):
        load_function(env, "environment")
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


def _takes(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the function has parameters for these keyword arguments, as far as it says."""
    try:
        inspect.signature(function).bind_partial(**kwargs)
    except TypeError:
        return False
    except ValueError:  # it does not say, as some written in C do not
        return True
    return True


def _gymnasium_make(
    env: str | gymnasium.envs.registration.EnvSpec, kwargs: Mapping[str, Any]
) -> gymnasium.Env[Any, Any]:
    name = env if isinstance(env, str) else env.id
    if name.startswith(ATARI_PREFIX):
        _register_atari(name)
    try:
        # Gymnasium's own checker costs more than a small environment's step; the stepper checks what it must.
        return gymnasium.make(env, disable_env_checker=True, **kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"{name} needs a package that is not installed: {error}") from None
    except gymnasium.error.UnregisteredEnv:
        raise UsageError(_unknown(name)) from None


def _unknown(env: str) -> str:
    hint = did_you_mean(env, gymnasium.registry)
    return f"no environment '{env}'{hint}: give a Gymnasium id, such as CartPole-v1 or ALE/Pong-v5, or module:function"
