"""Messages from a role to the process that supervises it: one frozen dataclass for each kind.

A class is sent as JSON values and raw arrays (`messages`), without pickle. Its fields hold JSON values, numpy arrays,
and mappings of these, nested to any depth. A tuple arrives as a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from veldt.errors import VeldtError
from veldt.runtime.messages import pack, unpack

_CLASSES: dict[str, type[RoleMessage]] = {}


class RoleMessage:
    """Base of all messages; a subclass is a frozen dataclass with a `kind` of its own (see `Note`).

    The supervising process must have imported the class.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str) -> None:
        """Raises ValueError for the kind of another class."""
        known = _CLASSES.get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"messages of kind '{kind}' are {known.__module__}.{known.__qualname__}: take another kind"
            )
        cls.kind = kind
        _CLASSES[kind] = cls

    def to_bytes(self) -> bytes:
        """Returns the message as it is sent."""
        arrays: dict[str, np.ndarray] = {}
        paths: list[list[str]] = []
        values = _without_arrays(self.to_values(), [], arrays, paths)
        return pack({"kind": self.kind, "values": values, "paths": paths}, arrays)

    @staticmethod
    def from_bytes(message: bytes) -> RoleMessage:
        """Returns what `to_bytes` has packed.

        Raises:
            VeldtError: the kind is not known here, or fields are missing, or there are others.
        """
        header, arrays = unpack(message)
        kind, values = str(header.get("kind")), header.get("values", {})
        message_class = _CLASSES.get(kind)
        if message_class is None:
            raise VeldtError(
                f"a message of the unknown kind '{kind}': known are {', '.join(sorted(_CLASSES))}; import the module "
                "that defines its class where the run's graph is made"
            )
        for number, path in enumerate(header.get("paths", [])):
            parent = values
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = arrays[str(number)]
        return message_class.from_values(values)

    def to_values(self) -> dict[str, Any]:
        """Returns the fields by name, as JSON values, arrays and mappings of these."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Returns the message of these `to_values`. Raises VeldtError if fields are missing, or if there are others."""
        declared = fields(cls)  # type: ignore[arg-type]
        required = {one.name for one in declared if one.default is MISSING and one.default_factory is MISSING}
        missing, others = required - values.keys(), values.keys() - {one.name for one in declared}
        if missing or others:
            what = (
                f"without its field '{min(missing)}'"
                if missing
                else f"with the unknown field '{min(others)}'"
            )
            raise VeldtError(
                f"a message of kind '{cls.kind}' {what}: its fields are {', '.join(one.name for one in declared)}"
            )
        return cls(**values)


@dataclass(frozen=True)
class Received:
    """A message and the number of the role that sent it, or that it is about."""

    role: int
    message: RoleMessage


@dataclass(frozen=True)
class Started(RoleMessage, kind="started"):
    """The role's process has started. `trace` is a descriptor to read its stack from (`stack_dump`), or -1."""

    trace: int
    pid: int


@dataclass(frozen=True)
class Ended(RoleMessage, kind="ended"):
    """The role has ended as asked."""


@dataclass(frozen=True)
class Failed(RoleMessage, kind="failed"):
    """The role has failed.

    Args:
        error: a sentence.
        details: a traceback.
        is_final: whether the same would happen again in a new process.
        is_echo: whether it only follows from another role's failure.
        is_env_error: whether it is an EnvError.
        moment: of the episode in which the process died, if it died so; see `errors.RoleError`.
    """

    error: str
    details: str
    is_final: bool
    is_echo: bool = False
    is_env_error: bool = False
    moment: str = ""


@dataclass(frozen=True)
class Restarted(RoleMessage, kind="restarted"):
    """The supervisor restarts the role `name`; `why` is the end of a sentence, `details` a traceback or a stack."""

    name: str
    why: str
    details: str


@dataclass(frozen=True)
class FailedAtEnd(RoleMessage, kind="failed-at-end"):
    """The role `name` failed, or died, after all were asked to end; `why` and `details` as in `Restarted`."""

    name: str
    why: str
    details: str


@dataclass(frozen=True)
class Note(RoleMessage, kind="note"):
    """A sentence for the user; `about` is its kind in events.jsonl."""

    text: str
    about: str = "note"


def _without_arrays(
    value: Any, path: list[str], arrays: dict[str, np.ndarray], paths: list[list[str]]
) -> Any:
    """Moves the arrays in mappings from `value` to `arrays`, and where they were to `paths`; returns the rest."""
    if not isinstance(value, Mapping):
        return value
    rest = {}
    for key, item in value.items():
        if isinstance(item, np.ndarray):
            arrays[str(len(paths))] = item
            paths.append([*path, key])
        else:
            rest[key] = _without_arrays(item, [*path, key], arrays, paths)
    return rest
