"""The settings reference (docs/reference/settings.md): every field of every settings class."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from generate.known import ALGORITHM_SETTINGS, SYSTEM_SETTINGS
from generate.parts import Parts, table
from veldt.cli.arguments import Setting, settings_of
from veldt.config.train_config import NetworkConfig, RunConfig
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.replay.settings import ReplayConfig
from veldt.setting_metadata import Unit, schedule

PAGE = Path(__file__).parents[1] / "reference" / "settings.md"
_GENERAL: dict[str, type[Any]] = {
    "The run": RunConfig,
    "Envs": EnvConfig,
    "Atari": AtariConfig,
    "Network": NetworkConfig,
    "Replay buffer": ReplayConfig,
}


def settings_table(cls: type[Any], names: Iterable[str]) -> str:
    """Returns a table of these settings of a settings class: flag, default, unit, allowed values and meaning."""
    hints = typing.get_type_hints(cls, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    by_name = {setting.name: setting for setting in settings_of(cls, defaults=False)}
    rows = []
    for name in names:
        extras = getattr(hints[name], "__metadata__", ())
        unit = next((extra.name for extra in extras if isinstance(extra, Unit)), "")
        setting = by_name[name]
        meaning = " ".join(setting.help.split()).replace("|", "\\|")
        rows.append([f"`{setting.flag}`", shown(defaults[name]), unit, _values(setting), meaning])
    return table(["flag", "default", "unit", "values", "meaning"], rows)


def shown(value: Any) -> str:
    """Returns a value as a table shows it, which is also how it can be typed after a flag."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return (
        f"{value:_}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _values(setting: Setting) -> str:
    if choices := typing.get_args(setting.kind):
        return ", ".join(f"`{choice}`" for choice in choices)
    kind = {
        bool: "switch",
        int: "whole number",
        float: "number",
        str: "text",
        schedule: "number or schedule",
    }[setting.kind]
    return f"{kind}{'s' if setting.repeats else ''}{' or `none`' if setting.optional else ''}"


def own_names(cls: type[Any]) -> list[str]:
    """Returns the settings that this class declares itself, among them inherited ones with another default."""
    return [field.name for field in dataclasses.fields(cls) if field.name in inspect.get_annotations(cls)]


def general() -> str:
    return "\n\n".join(
        f"### {title}\n\n{inspect.getdoc(cls)}\n\n{settings_table(cls, own_names(cls))}"
        for title, cls in _GENERAL.items()
    )


def algorithms() -> str:
    return _by_class(ALGORITHM_SETTINGS)


def systems() -> str:
    return _by_class(SYSTEM_SETTINGS)


def _by_class(named: dict[str, type[Any]]) -> str:
    """Returns a section for each class, and before them one for each base class that several of them share.

    A base class without a setting of its own has no section: its docstring is for programmers.
    """
    titles = {cls: name for name, cls in named.items()}
    bases = {
        name: [base for base in cls.__mro__ if dataclasses.is_dataclass(base)] for name, cls in named.items()
    }
    uses = Counter(base for found in bases.values() for base in found)
    common = [base for base in uses if uses[base] > 1 and base not in titles and own_names(base)]
    common.sort(key=lambda base: (-uses[base], base.__name__))
    sections = []
    for base in common:
        users = ", ".join(name for name, found in bases.items() if base in found)
        sections.append((f"Shared by {users}", base, []))
    for name, cls in named.items():
        sections.append((name, cls, [base for base in bases[name] if base is not cls]))
    texts = []
    for title, cls, above in sections:
        own = own_names(cls)
        text = f"### {title}\n\n{inspect.getdoc(cls)}"
        if also := [titles[base] for base in above if base in titles]:
            text += f" It also has every setting of {', '.join(f'`{name}`' for name in also)}."
        texts.append(
            f"{text}\n\n{settings_table(cls, own)}" if own else f"{text} All of them are in the tables above."
        )
    return "\n\n".join(texts)


def pages() -> dict[Path, Parts]:
    """Returns the generated parts of the page, by their names."""
    return {PAGE: {"general": general, "algorithms": algorithms, "systems": systems}}
