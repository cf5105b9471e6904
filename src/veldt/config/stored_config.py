"""The configuration as JSON values, as a run's config.json has it."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import SECTIONS, TrainConfig
from veldt.errors import CheckpointError, UsageError
from veldt.registry import Registry, is_plugin
from veldt.setting_metadata import hints_of
from veldt.setting_text import shown

_NOT_OURS = "config.json is not as veldt wrote it"  # the end of a sentence about a stored configuration


def to_dict(config: Any) -> dict[str, Any]:
    """Returns a configuration as plain JSON values."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Rebuilds the configuration from `to_dict`. CheckpointError where a field is unknown or missing, or a value is not
    allowed."""
    sections = {name: values[name] for name in SECTIONS if values.get(name) is not None}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise CheckpointError(
                f"the run's configuration has the section '{name}' with the value {shown(section)}, which is not a "
                f"JSON object: {_NOT_OURS}"
            )
    if "learn" not in sections:
        raise CheckpointError(f"the run's configuration lacks the section 'learn': {_NOT_OURS}")
    built = {
        "learn": _build(_registered(ALGORITHMS, values).settings, sections["learn"]),
        "roles": _build(_registered(SYSTEMS, values).settings, sections.get("roles", {})),
    }
    return _build(TrainConfig, {**values, **built})


def _registered(registry: Registry[Any], values: Mapping[str, Any]) -> Any:
    """Returns the algorithm or the system that the configuration names."""
    kind = registry.kind
    if kind not in values:
        raise CheckpointError(f"the run's configuration lacks the field '{kind}': {_NOT_OURS}")
    name = values[kind]
    if not isinstance(name, str) or name not in registry:
        raise CheckpointError(
            f"the run's configuration names the {kind} {shown(name)}, {_not_registered(values)}"
        )
    return registry[name]


def _not_registered(values: Mapping[str, Any]) -> str:
    """Returns the end of a sentence on a name that the run's plug-ins, which are imported by now, do not register."""
    if plugins := [module for module in values.get("plugins", ()) if module != "__main__"]:
        return (
            f"which {' and '.join(plugins)} (the run's plug-ins) did not register: they have changed since the run "
            "began; take them as they were then"
        )
    return "which is not registered here: name the module that registers it, with --plugin or by an import before"


def _build(cls: type[Any], values: Mapping[str, Any]) -> Any:
    hints = hints_of(cls)
    known = {f.name for f in dataclasses.fields(cls)}
    if unknown := sorted(set(values) - known):
        reader = (
            _changed(cls, "lacks")
            or "this veldt does not know: use the version that wrote it (see config.json)"
        )
        raise CheckpointError(f"the run's configuration has the field '{unknown[0]}', which {reader}")
    if missing := sorted({f.name for f in dataclasses.fields(cls) if _is_required(f)} - set(values)):
        why = f", which {changed}" if (changed := _changed(cls, "needs")) else f": {_NOT_OURS}"
        raise CheckpointError(f"the run's configuration lacks the field '{missing[0]}'{why}")
    built = {}
    for name, value in values.items():
        # For `X | None`, take X.
        hint = next((h for h in typing.get_args(hints[name]) if dataclasses.is_dataclass(h)), hints[name])
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
            built[name] = _build(hint, value)
        else:  # JSON has only lists; every sequence in the configuration is a tuple
            built[name] = tuple(value) if isinstance(value, list) else value
    try:
        return cls(**built)
    except UsageError as error:
        raise CheckpointError(f"the run's configuration cannot be used (see config.json): {error}") from error


def _changed(cls: type[Any], does: str) -> str | None:
    """Returns the end of a sentence on a field that a plug-in's settings class lacks or needs; None for veldt's own."""
    if not is_plugin(cls.__module__):
        return None
    return f"{cls.__name__} {does}: its module {cls.__module__} has changed since the run began; take it as it was then"


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
