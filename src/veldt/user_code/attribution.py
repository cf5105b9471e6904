"""Names the part of the user's code that raised an exception: a plug-in's algorithm, or a network of the user's own.

The parts of a process are recorded where they become known: when a plug-in registers one, or when the user's own
network is made. The traceback then tells whose code an exception comes from, so no call of that code must be guarded.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from veldt.errors import (
    NetworkError,
    PeerLostError,
    PluginError,
    VeldtError,
    described,
    shortened,
    traceback_of,
)

# How Python's messages begin about a call with other arguments than the function takes, and about an abstract class.
_CALLED = re.compile(r"(?P<name>[\w.<>]+)\(\) |Can't instantiate abstract class (?P<abstract>\w+)")
# The module of torch that calls every nn.Module. A script with a network may also have callbacks and loggers, which
# torch doesn't call: they are not part of the network.
_MODULE_CALLS = "torch.nn.modules.module"
# The classes of veldt that call a module of the user's, which may consist of torch's modules alone.
_CALLERS = re.compile(r"veldt\.networks\.(build\.UserTorso|own_core\.Own|own_heads\.(Own|_Head))")
# Never the user's, also where a class of theirs is registered, or used as a network, as it is.
_LIBRARIES = {"veldt", "torch"}


@dataclass(frozen=True)
class _Part:
    """One part of the user's code.

    `packages` are the topmost packages of its modules, `names` the qualified names of its classes and functions.
    """

    what: str
    packages: frozenset[str]
    names: frozenset[str]
    kind: type[PluginError] | type[NetworkError]

    def defines(self, name: str) -> bool:
        """Whether a function of this qualified name is one of the part's, or a method of one of its classes."""
        return any(name == own or name.startswith(f"{own}.") for own in self.names)


_parts: dict[str, _Part] = {}


def record_part(
    what: str,
    module: str,
    definitions: Iterable[Any],
    kind: type[PluginError] | type[NetworkError] = PluginError,
) -> None:
    """Records a part of the user's code; does nothing for one without classes and functions, such as a recipe.

    Args:
        what: the part, as the beginning of a sentence: "algorithm 'qr-dqn' (module my_plugin)".
        module: the module that has registered or made it.
        definitions: its classes and functions, which may be of other modules.
        kind: the error that an exception of the part becomes.
    """
    named = [one for one in definitions if hasattr(one, "__qualname__")]
    if not named:
        return
    packages = frozenset(name.partition(".")[0] for name in (module, *(one.__module__ for one in named)))
    names = frozenset(one.__qualname__ for one in named)
    _parts[what] = _Part(what, packages - _LIBRARIES, names, kind)


@contextlib.contextmanager
def naming_user_code() -> Iterator[None]:
    """Converts an exception that comes from a recorded part to an error that names the part, with its traceback.

    Errors of veldt pass as they are, and so do exceptions of other code.
    """
    try:
        yield
    except (VeldtError, PeerLostError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if (named := named_error(error)) is None:
            raise
        raise named from error


def named_error(error: BaseException) -> VeldtError | None:
    """Returns the error that names the part whose code has raised `error`; None if it comes from other code."""
    if isinstance(error, VeldtError | PeerLostError) or (found := _find(error)) is None:
        return None
    parts, function = found
    what = " or ".join(part.what for part in parts)
    details = traceback_of(error)
    named = parts[0].kind(f"{what} raised in {function}: {described(error)}", details=details)
    for note in getattr(error, "__notes__", ()):
        named.add_note(shortened(note))
    return named


def is_by_user(owner: object) -> bool:
    """Whether an object's class is one of a recorded part, or a network of the user's own is in use."""
    name = type(owner).__qualname__
    return any(part.kind is NetworkError or part.defines(name) for part in _parts.values())


def _find(error: BaseException) -> tuple[list[_Part], str] | None:
    """Returns the parts that may have raised `error`, and the function that did."""
    # From the innermost frame: a plug-in's system may be running another plug-in's algorithm.
    running = [frame for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__)))]
    frames = [(str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname) for frame in running]
    in_module = any(name == _MODULE_CALLS for name, _ in frames)
    called = [(name.partition(".")[0], function) for name, function in frames]
    for package, function in called:
        parts = [part for part in _parts.values() if package in part.packages]
        own = [name for other, name in called if other == package]
        # The function may be a helper that the part's own methods have called.
        defining = next(filter(None, (_defining(parts, name) for name in own)), None)
        if found := defining or [part for part in parts if part.kind is PluginError or in_module]:
            return found, function
    networks = [part for part in _parts.values() if part.kind is NetworkError]
    if networks and (function := _of_torchs_modules(frames)):
        return networks, function
    # A call that does not match the function's parameters fails before the function has a frame.
    if isinstance(error, TypeError) and (message := _CALLED.match(str(error))) is not None:
        function = message["name"] or message["abstract"]
        if parts := _defining([part for part in _parts.values() if part.packages], function):
            return parts, function
    # Nor has an attribute that the object lacks, as where its constructor does not call that of the base class.
    if isinstance(error, AttributeError):
        lacking = type(error.obj).__qualname__
        if parts := _defining([part for part in _parts.values() if part.packages], lacking):
            return parts, lacking
    return _inherited(running)


def _inherited(running: Iterable[FrameType]) -> tuple[list[_Part], str] | None:
    """Returns the part with a method of veldt's that failed in an object of the part's class: it has inherited the
    method, for which its attributes, or the outputs of its network, do not fit.

    Args:
        running: the frames, the innermost first.
    """
    for frame in running:
        owner = type(frame.f_locals.get("self"))
        package = owner.__module__.partition(".")[0]
        if parts := _defining(
            [one for one in _parts.values() if package in one.packages], owner.__qualname__
        ):
            return parts, frame.f_code.co_qualname
    return None


def _of_torchs_modules(frames: list[tuple[str, str]]) -> str:
    """Returns the method that failed where a user's network has called torch's modules alone; "" otherwise.

    Args:
        frames: (module, function) of each, the innermost first.
    """
    is_torchs = [name.partition(".")[0] == "torch" for name, _ in frames]
    inner = is_torchs.index(False) if False in is_torchs else 0
    if not inner or not _CALLERS.match(".".join(frames[inner])):
        return ""
    return next((function for _, function in frames[:inner] if function.endswith(".forward")), "")


def _defining(parts: Iterable[_Part], function: str) -> list[_Part]:
    return [part for part in parts if part.defines(function)]
