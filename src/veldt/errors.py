"""Errors a user sees: one clear sentence that says the cause, the value got, what is allowed and how to mend it.

The command line prints the sentence on stderr and exits with `exit_code`; a traceback is shown only with `--debug`.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import NoReturn

_ALIKE = 0.65  # of 1, how much of two names has to be the same for one to be taken for the other


class VeldtError(Exception):
    """Something failed while running (exit code 1)."""

    exit_code = 1


class UsageError(VeldtError):
    """What was asked for cannot be done as asked (exit code 2)."""

    exit_code = 2


class EnvError(VeldtError):
    """An environment raised, returned something invalid, hung, or its process died.

    `env` is its index in the run, `seed` the seed of the episode it was playing, and `details` the
    traceback from the process in which it ran ("" where there is none).
    """

    def __init__(self, message: str, *, env: int = -1, seed: int = -1, details: str = "") -> None:
        super().__init__(message)
        self.env, self.seed, self.details = env, seed, details


class NetworkError(VeldtError):
    """The user's own network raised, when it was made or tried out; `details` is the traceback."""

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class RoleError(VeldtError):
    """A part of a run that works in a process of its own failed for good; `details` is its traceback, or "".

    `is_final` is whether it would fail again, should the run go on from where it was.
    """

    def __init__(self, message: str, *, details: str = "", is_final: bool = True) -> None:
        super().__init__(message)
        self.details, self.is_final = details, is_final


class PeerLostError(RuntimeError):
    """A process that this one works with has gone, or did not come in time: the failure is not this one's own."""


class CheckpointError(VeldtError):
    """A checkpoint is missing, truncated, altered, or belongs to something else."""


class Escaped(Exception):
    """Stands for what the user's code raised that is no Exception: SystemExit, say, which would end veldt."""


def contained(error: BaseException) -> NoReturn:
    """Raises what the user's code has raised so that handlers of Exception see it, whatever it was.

    KeyboardInterrupt stays what it is: veldt's own handlers raise it, wherever the process is, to end it.
    """
    if isinstance(error, (Exception, KeyboardInterrupt, GeneratorExit)):
        raise error
    raise Escaped(described(error)) from error


def described(error: BaseException) -> str:
    """The kind of an error of the user's code, and what it says, if anything."""
    if isinstance(error, Escaped):
        return str(error)
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def diverged(what: str, lower: str = "--learning-rate or --max-grad-norm") -> VeldtError:
    """Training that has diverged: `what` shows it (a sentence's beginning), and which settings to lower."""
    return VeldtError(
        f"{what}: training has diverged; lower {lower}, or look for extreme observations or rewards (earlier "
        "checkpoints are intact)"
    )


@contextlib.contextmanager
def as_error(kind: type[EnvError] | type[NetworkError], what: str) -> Iterator[None]:
    """Errors of the user's own code become one of `kind`: `what` failed (a sentence's beginning), and how."""
    try:
        yield
    except (VeldtError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        details = "".join(traceback.format_exception(error))
        raise kind(f"{what}: {described(error)}", details=details) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known name closest to `name`, or an empty string where none is close.

    Dashes, a namespace or directory (`ALE/`), a version (`-v5`) and case do not make names alike or different; among
    names alike without them, the closest with them is taken.
    """
    wanted, ranked = _core(name), []
    for other in known:
        likeness = difflib.SequenceMatcher(None, wanted, _core(other)).ratio()
        if likeness >= _ALIKE:
            whole = difflib.SequenceMatcher(None, name, other).ratio()
            ranked.append((likeness, whole, other))
    return f" (did you mean '{max(ranked)[2]}'?)" if ranked else ""


def _core(name: str) -> str:
    """The part of a name that tells it from others."""
    last = name.strip("-").rpartition("/")[2] or name
    return re.sub(r"-v\d+$", "", last).lower()
