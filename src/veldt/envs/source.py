"""Makes an environment from a Gymnasium id, `module:function`, `module:Id-v0`, or a callable."""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from veldt.errors import EnvError, UsageError, described, did_you_mean
from veldt.runtime.activity import importing
from veldt.setting_text import shown
from veldt.user_code import by_value
from veldt.user_code.import_path import load_function, load_named_module, name_of

ATARI_PREFIX = "ALE/"
_ID = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")  # the id of an environment; no name of a function has a "-"
_RENDERS = (
    "let it take the keyword argument `render_mode`, which is 'rgb_array' for a video, and render accordingly"
)


@dataclass(frozen=True)
class EnvSource:
    """How to make the environment, in any process.

    `name` is shown to the user and written into the run. `recipe` (cloudpickled, only ever sent to this run's own child
    processes, never stored) makes the environment where the name alone cannot: for a callable, or an id, which the
    user's own script may have registered. Processes receive the factory, never an environment.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    recipe: bytes | None = None

    @property
    def is_atari(self) -> bool:
        return self.name.startswith(ATARI_PREFIX)

    def make(self, *, render: bool = False) -> gymnasium.Env[Any, Any]:
        """Returns a new environment; with `render`, one whose `render()` returns pictures, uint8 [H, W, 3].

        Raises:
            UsageError: it cannot be made, or cannot render. Errors of the user's own factory pass through.
        """
        try:
            env = self._make(render)
        except TypeError as error:
            if render and "render_mode" in str(error):
                raise UsageError(f"{self.name} cannot be rendered: {error}; {_RENDERS}") from None
            if unread := _refused(error, self.kwargs):
                raise UsageError(
                    f"--env-kwargs is {dict(self.kwargs)}, and {self.name} takes no '{unread}': leave it out, or "
                    "write it as the environment does"
                ) from None
            if missing := _missing(error, self.name):
                raise UsageError(
                    f"{self.name} needs {missing}, and --env-kwargs is {dict(self.kwargs)}: give it there, as JSON, or "
                    "give the function a default"
                ) from None
            raise
        if not isinstance(env, gymnasium.Env):
            single = (
                "a single environment, of which --num-envs are made" if _is_several(env) else "an environment"
            )
            got = f"the class {env.__name__}" if isinstance(env, type) else type(env).__name__
            raise UsageError(f"{self.name} returned {got}, not a gymnasium.Env: it must return {single}")
        if render and env.render_mode != "rgb_array":
            mode = env.render_mode
            env.close()
            raise UsageError(f"{self.name} cannot be rendered: its render_mode is {mode!r}; {_RENDERS}")
        return env

    def _make(self, render: bool) -> Any:
        rendering = {"render_mode": "rgb_array"} if render else {}
        made = by_value.loads(self.recipe) if self.recipe else _load(self.name)
        if isinstance(made, gymnasium.envs.registration.EnvSpec):
            return _gymnasium_make(made, {**self.kwargs, **rendering})
        # A factory without this parameter may render by its own choice.
        return made(**self.kwargs, **(rendering if _takes(made, rendering) else {}))


def _is_several(env: Any) -> bool:
    """Whether it is a vector of envs: Gymnasium's, or Stable-Baselines3's."""
    return isinstance(env, gymnasium.vector.VectorEnv) or hasattr(env, "step_wait")


def resolve(
    env: str | Callable[..., gymnasium.Env[Any, Any]], kwargs: Mapping[str, Any] | None = None
) -> EnvSource:
    """Returns the source of `env`, with the keyword arguments that make it.

    Raises:
        UsageError: an id or function is unknown (with a suggestion), or `kwargs` would not be used.
        EnvError: its module failed when it was imported.
    """
    if not isinstance(env, str):
        if not callable(env):
            raise UsageError(_not_a_source(env))
        return EnvSource(name_of(env), kwargs or {}, _pickled(env, name_of(env)))
    with importing(EnvError, f"environment {env}"):
        return _named(env, kwargs)


def _not_a_source(env: Any) -> str:
    """Returns a sentence on an `env` that is neither a string nor callable."""
    if _is_several(env) or isinstance(env, gymnasium.Env):
        return (
            f"env is an object of {type(env).__name__}, and a run makes several environments: give a Gymnasium id, or "
            "a function that makes a single one, env=lambda: ..."
        )
    return (
        f"env is {shown(env):.100}: it must be a Gymnasium id, 'module:function' or a callable that makes one"
    )


def _named(env: str, kwargs: Mapping[str, Any] | None) -> EnvSource:
    if env.startswith(ATARI_PREFIX):
        _register_atari(env)
        if kwargs:
            raise UsageError(
                f"--env-kwargs is {dict(kwargs)}, and {env} is played natively, with flags of its own "
                "(--sticky-actions, --frame-skip, --full-action-space, ...): leave it out, or give a function that "
                "makes the environment, as module:function"
            )
    if ":" in env and not _registered(env):
        made = _load(env)
        # Child processes cannot import what the running script defines: the function is sent to them.
        by_script = env.startswith("__main__:")
        return EnvSource(env, kwargs or {}, _pickled(made, env) if by_script else None)
    if not _registered(env):
        raise UsageError(_unknown(env))
    # Nor do they know an id that the script, or a module which it imports, has registered: its specification is sent.
    return EnvSource(env, kwargs or {}, _pickled(_by_value(gymnasium.spec(env)), env))


def _load(name: str) -> Callable[..., Any] | gymnasium.envs.registration.EnvSpec:
    """Returns what `module:function` names, or the specification that `module:Id-v0` names, as for `gymnasium.make`."""
    module, _, registered = name.partition(":")
    if not _ID.fullmatch(registered) or not all(part.isidentifier() for part in module.split(".")):
        return load_function(name, "environment")
    load_named_module(module, name, "environment")
    if not _registered(registered):
        raise UsageError(
            f"no environment '{name}': module '{module}' registers no '{registered}'"
            f"{did_you_mean(registered, gymnasium.registry)}"
        )
    return _by_value(gymnasium.spec(registered))


def _pickled(env: Any, name: str) -> bytes:
    try:
        return by_value.dumps(env)
    except Exception as error:
        raise UsageError(
            f"env is {name}, which cannot be sent to the processes of a run ({described(error)}): create objects that "
            "cannot be pickled (locks, connections) inside the function, when it is called"
        ) from error


def atari_games() -> list[str]:
    """Returns the ids of all Atari games; none without ale-py."""
    with contextlib.suppress(UsageError):
        _register_atari(ATARI_PREFIX)
    return [name for name in gymnasium.registry if name.startswith(ATARI_PREFIX)]


def imported_module(env: str, kwargs: Mapping[str, Any]) -> str | None:
    """Returns the module that `env` or its keyword arguments cause to be imported; None if there is none.

    Ids that wrap an environment of another library (Shimmy's `GymV26Environment-v0`) take its name as `env_id`, which
    may be `module:Id-v0`.
    """
    for name in (env, kwargs.get("env_id")):
        if isinstance(name, str) and ":" in name:
            return name.partition(":")[0]
    return None


def _by_value(spec: gymnasium.envs.registration.EnvSpec) -> gymnasium.envs.registration.EnvSpec:
    module, _, name = str(spec.entry_point).partition(":")
    if module == "__main__":
        spec = copy.deepcopy(spec)
        spec.entry_point = getattr(sys.modules[module], name)
    return spec


def _registered(env: str) -> bool:
    if env in gymnasium.registry:
        return True
    try:
        gymnasium.spec(env)
    except (gymnasium.error.Error, ValueError):
        return False
    return True


def _register_atari(env: str) -> None:
    try:
        import ale_py
    except ImportError:
        raise UsageError(f"{env} needs ale-py, which is not installed: pip install 'veldt[atari]'") from None
    if not any(name.startswith(ATARI_PREFIX) for name in gymnasium.registry):
        gymnasium.register_envs(ale_py)


def _refused(error: TypeError, kwargs: Mapping[str, Any]) -> str | None:
    """Returns the keyword argument that the call rejected; None if the error has another cause."""
    refused = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    return refused[1] if refused and refused[1] in kwargs else None


def _missing(error: TypeError, name: str) -> str | None:
    """Returns the arguments that the function or class `name` was not given; None if the error has another cause."""
    called = re.match(
        r"(?:.*\.)?(\w+|<lambda>)\(\) missing \d+ required [\w -]+ (arguments?): (.*)",
        str(error).replace(".__init__()", "()", 1),
    )
    if called is None or not name.endswith((f":{called[1]}", f".{called[1]}")):
        return None
    return f"the {called[2]} {called[3]}"


def _takes(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Returns whether the function's signature has parameters for these keyword arguments."""
    try:
        inspect.signature(function).bind_partial(**kwargs)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        return True
    return True


def _gymnasium_make(
    spec: gymnasium.envs.registration.EnvSpec, kwargs: Mapping[str, Any]
) -> gymnasium.Env[Any, Any]:
    if spec.id.startswith(ATARI_PREFIX):
        _register_atari(spec.id)
    try:
        # Gymnasium's own checker costs more than a small environment's step; the stepper does the necessary checks.
        return gymnasium.make(spec, **{"disable_env_checker": True, **kwargs})
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"{spec.id} needs a package that is not installed: {error}") from None


def _unknown(env: str) -> str:
    atari_games()  # which registers them, so that they are suggested if ale-py is installed
    native = _native_game(env)
    known = (name for name in gymnasium.registry if _native_game(name) in (None, name))
    hint = f" (did you mean '{native}'?)" if native else did_you_mean(env, known)
    return (
        f"no environment '{env}'{hint}: give a Gymnasium id, such as CartPole-v1 or ALE/Pong-v5 (module:Id-v0, if the "
        "import of a module registers it), or module:function"
    )


def _native_game(env: str) -> str | None:
    """Returns the Atari game of any old or new name of it: Pong-v5, PongNoFrameskip-v4, Pong-ram-v0."""
    game = re.match(r"(?:ALE/)?(\w+?)(?:-ram)?(?:NoFrameskip|Deterministic)?-v\d+$", env)
    name = f"{ATARI_PREFIX}{game[1]}-v5" if game else ""
    return name if name in gymnasium.registry else None
