"""The only place where a name in a run's config.json leads to an import.

The run may be of another user. A name in it is imported only if it is not the run's own code (a registered id, a
network of veldt's), if the user names it in the call or trusts the run, or if the user has trained with the same code
on this machine (`trusted`). A callable, which a run cannot store, must be passed again if it cannot be imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from veldt.algorithms.schedule_settings import schedule_functions
from veldt.config.train_config import TrainConfig
from veldt.envs.source import EnvSource, imported_module, resolve
from veldt.errors import UsageError
from veldt.networks.build import is_own_network
from veldt.networks.own import NO_PARTS, PARTS, Factory, OwnParts
from veldt.setting_metadata import check_type
from veldt.setting_text import flag
from veldt.user_code.import_path import can_be_loaded, no_module
from veldt.user_code.trusted import Code, find_code, is_remembered, remember

Env = str | Callable[..., gymnasium.Env[Any, Any]]
Part = str | Factory
# What messages call each kind of code, and the setting that names it, where these are not the kind itself.
_WORDS: Mapping[str, str] = {"env": "environment"}
_SETTINGS: Mapping[str, str] = {"logger": "log"}


@dataclass(frozen=True)
class CodeChoice:
    """The caller's choice about the code of a run.

    Args:
        env, own: used instead of those that the run names.
        trust: whether to import the code that the run names.
    """

    env: Env | None = None
    own: OwnParts = NO_PARTS
    trust: bool = False

    def __post_init__(self) -> None:
        check_type(flag("trust"), self.trust, bool)

    @property
    def is_made(self) -> bool:
        return self != CodeChoice()


@dataclass(frozen=True)
class Admitted:
    """The admitted code: the `source` of the environment, the user's `own` parts of the network that were given as
    callables, and the run's configuration with the given names in place of its own."""

    config: TrainConfig
    source: EnvSource
    own: OwnParts


def admit(
    run: Path,
    config: TrainConfig,
    choice: CodeChoice,
    call: str,
    *,
    policy: bool = True,
    trains: bool = False,
) -> Admitted:
    """Returns the environment and the network of a run: those of `choice`, else those that its configuration names.

    An environment with another name than the run's is made without the run's keyword arguments. If these, and not the
    name that the caller gives, lead to an import, the caller must trust the run.

    Args:
        run: the run's directory, for messages.
        call: how the caller can pass callables again, with {} for the arguments: "load(run, {})".
        policy: whether the network will be made at all.
        trains: whether the run's schedules will be called.

    Raises:
        UsageError: the environment or the network was a callable and must be passed again; the name does not exist; or
            it is code that the user has neither named nor trained with.
    """
    env = choice.env
    if isinstance(env, str) and env != config.env:
        config = dataclasses.replace(config, env=env, env_kwargs={})
    given: dict[str, Any] = {
        part: value for part in PARTS if isinstance(value := getattr(choice.own, part), str)
    }
    if given:
        config = dataclasses.replace(config, network=dataclasses.replace(config.network, **given))
    names: dict[str, str] = {}
    is_named = callable(env) or (isinstance(env, str) and ":" in env)
    if not is_named and imported_module(config.env, config.env_kwargs) is not None:
        names["env"] = config.env
    if policy:
        names |= {part: name for part, name in own_names(config).items() if getattr(choice.own, part) is None}
    _refuse_missing(names, call)
    if not choice.trust:
        codes = []
        for kind, name in names.items():
            if kind == "env":
                module = imported_module(config.env, config.env_kwargs)
                codes.append(_require_code("env", name, config.env_kwargs, module))
            else:
                codes.append(_require_code(kind, name, {}))
        schedules = schedule_functions(config.learn).values() if trains else ()
        codes += [_require_code("schedule", name, {}) for name in schedules]
        _refuse_foreign(run, codes)
    source = resolve(config.env if env is None else env, config.env_kwargs)
    return Admitted(config, source, choice.own.callables())


def own_names(config: TrainConfig) -> dict[str, str]:
    """Returns the names of the user's own parts of the network that the configuration names, by part."""
    named = {part: getattr(config.network, part) for part in PARTS}
    return {part: name for part, name in named.items() if name and is_own_network(name)}


def remember_code(
    source: EnvSource, names: Mapping[str, str], schedules: Iterable[str], plugins: Iterable[str]
) -> str | None:
    """Records that the user trains with this code. Returns a sentence to show where that fails, else None.

    `names` are those of the user's own parts of the network, by part; `schedules` are functions' names.
    """
    codes = [find_code("plugin", module, {}, module) for module in plugins if module != "__main__"]
    module = imported_module(source.name, source.kwargs)
    if module is not None and can_be_loaded(source.name):
        codes.append(find_code("env", source.name, source.kwargs, module))
    codes += [find_code(part, name, {}) for part, name in names.items() if can_be_loaded(name)]
    codes += [find_code("schedule", name, {}) for name in schedules]
    return remember(code for code in codes if code is not None)


def admit_functions(run: Path, kind: str, names: Iterable[str]) -> None:
    """Checks functions that a run's configuration names as "module:function".

    Raises:
        UsageError: one does not exist, or is code that the user has not trained with.
    """
    _refuse_foreign(run, [_require_code(kind, name, {}) for name in names])


def remember_functions(kind: str, names: Iterable[str]) -> str | None:
    """Records that the user trains with these functions; returns as `remember_code`."""
    codes = (find_code(kind, name, {}) for name in names)
    return remember(code for code in codes if code is not None)


def _refuse_missing(names: Mapping[str, str], call: str) -> None:
    """Raises UsageError where a callable cannot be imported by its name."""
    if missing := [what for what, name in names.items() if not can_be_loaded(name)]:
        which = " and ".join(f"{_WORDS.get(what, what)} {names[what]}" for what in missing)
        were, them = ("were", "them") if len(missing) > 1 else ("was", "it")
        a = "callables" if len(missing) > 1 else "a callable"
        arguments = ", ".join(f"{what}=..." for what in missing)
        flags = " ".join(f"--{what} module:function" for what in missing)
        raise UsageError(
            f"the run's {which} {were} {a} that cannot be imported by name: pass {them} again, "
            f"{call.format(arguments)}; on the command line, put {them} into a file and give {flags}"
        )


def _require_code(kind: str, name: str, kwargs: Mapping[str, Any], module: str | None = None) -> Code:
    """Returns the code of this name, with arguments as for `find_code`. UsageError if it is not on this machine."""
    code = find_code(kind, name, kwargs, module)
    if code is None:
        raise no_module(name, _WORDS.get(kind, kind), module)
    return code


def _refuse_foreign(run: Path, codes: list[Code]) -> None:
    """Raises UsageError for code that the user has not trained with."""
    foreign = [code for code in codes if not is_remembered(code)]
    if not foreign:
        return
    parts = []
    for code in foreign:
        kwargs = f" (env_kwargs {code.kwargs})" if code.kwargs != "{}" else ""
        files = " and ".join(code.files) or "no file"
        parts.append(f"the {_WORDS.get(code.kind, code.kind)} {code.name}{kwargs}, imported from {files}")
    what = f"{run} names {'; and '.join(parts)}: this is code, and you have not trained with it on this machine; add "
    # Neither keyword arguments that lead to an import nor a schedule can be given by the user who opens a run.
    if not all(":" in code.name and code.kind != "schedule" for code in foreign):
        raise UsageError(f"{what}--trust if you trust the run (in Python trust=True)")
    flags = " ".join(f"--{_SETTINGS.get(code.kind, code.kind)} {code.name}" for code in foreign)
    arguments = ", ".join(f'{_SETTINGS.get(code.kind, code.kind)}="{code.name}"' for code in foreign)
    raise UsageError(
        f"{what}--trust if you trust the run, or name it yourself with {flags} (in Python trust=True, or {arguments})"
    )
