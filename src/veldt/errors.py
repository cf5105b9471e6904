"""Errors that a user sees: one clear sentence with the cause, the value given, what is allowed and how to correct it.

The command line prints the sentence on stderr and exits with `exit_code`; a traceback is shown only with `--debug`.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

_SHORT = 4  # characters
_LONGEST = 2_000  # characters of a message: a value in it, from a file, may have any length
_LONGEST_TRACEBACK = 20_000
_ALIKE = 0.65  # minimum similarity (of 1) of two names for one to be suggested for the other


class VeldtError(Exception):
    """Something failed while running (exit code 1)."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class UsageError(VeldtError):
    """The request cannot be fulfilled as given (exit code 2)."""

    exit_code = 2


class EnvError(VeldtError):
    """An environment raised, returned something invalid, hung, or its process died.

    `env` is the env's index in the run, `seed` the seed of its current episode, and `details` the traceback from
    the process in which it ran ("" where there is none).
    """

    def __init__(self, message: str, *, env: int = -1, seed: int = -1, details: str = "") -> None:
        super().__init__(message)
        self.env, self.seed, self.details = env, seed, details


class NetworkError(VeldtError):
    """The user's own network raised an exception; `details` is the traceback."""

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class PluginError(VeldtError):
    """Code of a plug-in or of a callback raised an exception, in any process of a run; `details` is the traceback."""

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class RoleError(VeldtError):
    """A role of a run, in a process of its own, failed for good; `details` is its traceback, or "".

    `is_final` is whether the same error would occur again if the run were resumed. `moment` is the env, seed and step
    of an episode in which the role died, or "". `is_env_error` is whether the role reported an EnvError.
    """

    def __init__(
        self,
        message: str,
        *,
        details: str = "",
        is_final: bool = True,
        moment: str = "",
        is_env_error: bool = False,
    ) -> None:
        super().__init__(message)
        self.details, self.is_final, self.moment, self.is_env_error = details, is_final, moment, is_env_error


class PeerLostError(RuntimeError):
    """A peer process has died, or did not connect in time: the cause of the failure is not in this process."""


# What code that restores state raises where a value is not one that veldt stores there.
NOT_AS_STORED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# What copying stored arrays into a run's own raises if they have other names, shapes or types.
ARRAYS_DO_NOT_FIT = (KeyError, RuntimeError, TypeError, ValueError)


class CheckpointError(VeldtError):
    """A checkpoint is missing, truncated, altered, or belongs to another run."""


class Escaped(Exception):
    """Replaces what the user's code raised if that means something to its callers: SystemExit, say, would end veldt."""


def contained(error: BaseException) -> NoReturn:
    """Raises an error of the user's code in a form that `except Exception` catches, and that stays what it is.

    KeyboardInterrupt stays as it is: veldt's own signal handlers raise it, at any point, to end the process. Only in
    the processes that ignore Ctrl-C, because their parent ends them, it comes from the user's code.
    """
    is_interrupt = (
        isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    )
    # A StopIteration has a meaning in the generators that call the user's code.
    is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
    if is_interrupt or is_plain:
        raise error
    raise Escaped(described(error)) from error


def described(error: BaseException) -> str:
    """Returns the type and, if any, the message of an error of the user's code, shortened if it is too long."""
    if isinstance(error, Escaped):
        return str(error)
    try:
        message = shortened(str(error))
    except Exception:  # the user's own `__str__` may fail, which must not hide the error itself
        message = "its message cannot be printed, because its __str__ fails"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its type where it has none: libraries' messages may be long."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


_DIVERGED = "training has diverged"


def says_diverged(sentence: str) -> bool:
    """Returns whether a sentence is that of the error for diverged training."""
    return _DIVERGED in sentence


def diverged(what: str, lower: str = "--learning-rate or --max-grad-norm") -> VeldtError:
    """Returns the error for diverged training: `what` (a sentence's beginning) shows it; `lower` are the settings."""
    return VeldtError(
        f"{what}: {_DIVERGED}; lower {lower}, or look for extreme observations or rewards (earlier "
        "checkpoints are intact)"
    )


@contextlib.contextmanager
def as_error(
    kind: type[EnvError] | type[NetworkError] | type[PluginError], what: str | Callable[[], str]
) -> Iterator[None]:
    """Converts errors of the user's own code to `kind`.

    Args:
        what: the beginning of the sentence, what failed; the reason follows. A function is called after the error.
    """
    try:
        yield
    except (VeldtError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        details = traceback_of(error)
        begin = what if isinstance(what, str) else what()
        raise kind(f"{begin}: {described(error)}", details=details) from error


def traceback_of(error: BaseException) -> str:
    """Returns the traceback of an error as Python prints it, its messages and notes shortened where they are too long:
    it goes from process to process, and onto the screen."""
    parts = traceback.TracebackException.from_exception(error).format()
    return shortened("".join(map(shortened, parts)), _LONGEST_TRACEBACK)


def shortened(message: str, longest: int = _LONGEST) -> str:
    """Returns the beginning and the end of a text of more than `longest` characters, and how much is left out."""
    if len(message) <= longest:
        return message
    part = longest // 2
    return f"{message[:part]} [{len(message) - 2 * part:,} characters left out] {message[-part:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` with the known name closest to `name`, or "" if none is close.

    Dashes, a namespace or directory (`ALE/`), a version (`-v5`) and case are ignored in the comparison; among equally
    close names, the whole name decides.
    """
    wanted, ranked = _core(name), []
    for other in known:
        likeness = difflib.SequenceMatcher(None, wanted, _core(other)).ratio()
        # Of short names, any two letters in common are much: sac is not a misspelt a3c.
        if likeness >= _ALIKE and (len(wanted) > _SHORT or wanted[:1] == _core(other)[:1]):
            whole = difflib.SequenceMatcher(None, name, other).ratio()
            ranked.append((likeness, whole, other))
    return f" (did you mean '{max(ranked)[2]}'?)" if ranked else ""


def _core(name: str) -> str:
    """Returns a name without dashes at its ends, namespace and version, in lower case."""
    last = name.strip("-").rpartition("/")[2] or name
    return re.sub(r"-v\d+$", "", last).lower()
