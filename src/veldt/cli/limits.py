"""The message where a limit was reached: of open files, of threads and processes, of memory, or of room for files."""

from __future__ import annotations

import errno
import re
import resource
from collections.abc import Iterator

from veldt.errors import EnvError, NetworkError, PluginError, RoleError
from veldt.formatting import size
from veldt.runtime.endings import NO_MORE_PROCESSES

_ENOUGH = 1024
_LOW = 128  # a process that is started below this limit may end before it can say why
# Errors that quote what code in this or another process has raised.
_QUOTING = (EnvError, NetworkError, PluginError, RoleError)
# As Python, NumPy, torch on the CPU and torch on a GPU say it. Python's own has no amount.
_NO_MEMORY = re.compile(
    r"MemoryError|[Uu]nable to allocate \d|you tried to allocate \d|Cannot allocate memory|CUDA out of memory"
)
_AMOUNT = re.compile(r"allocate (?P<number>[\d.]+) (?P<unit>bytes|[KMGT]iB)\b")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_NOT_MAPPED = re.compile(r"(?P<library>\S+): (failed to map segment|cannot allocate memory)", re.IGNORECASE)
_NO_TEMPORARY = re.compile(r"No usable temporary directory found in \[(?P<tried>.*)\]")  # as Python says it
_LOWER = "lower --buffer-size, --num-envs, --batch-size, --actors or --hidden, whichever of them is large"


def limit_reached(error: BaseException) -> str | None:
    """Returns a sentence if `error`, or an error that led to it, comes from such a limit; None if not."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended_early = False
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno == errno.EMFILE:
            return _too_few_files(limit)
        if isinstance(each, RuntimeError) and "can't start new thread" in str(each):
            return NO_MORE_PROCESSES
        if isinstance(each, FileNotFoundError) and (found := _NO_TEMPORARY.search(str(each))):
            return _no_temporary_files(found["tried"])
        ended_early = ended_early or isinstance(each, EOFError | ConnectionError)
    if ended_early and 0 <= limit < _LOW:
        return _too_few_files(limit)
    return _out_of_memory(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _too_few_files(limit: int) -> str:
    return (
        f"a process may open {limit:,} files at once here (ulimit -n), and this takes more: raise the limit with "
        f"`ulimit -n {_ENOUGH}`, and start again"
    )


def _no_temporary_files(tried: str) -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == 0:
        return "no file may be written here (ulimit -f is 0): raise it with `ulimit -f unlimited`, and start again"
    return (
        f"no directory takes temporary files (tried {tried}), as when their disk is full: make room in one of them, or "
        "name another one in the environment variable TMPDIR, and start again"
    )


def _out_of_memory(error: BaseException) -> str | None:
    if isinstance(error, _QUOTING):
        texts = [str(error)]
    elif type(error).__module__.partition(".")[0] == "veldt":  # its own sentence says all
        return None
    else:  # the type counts, too: a MemoryError may have no message
        texts = [f"{type(each).__name__}: {each}" for each in _chain(error)]
    most = _most_addresses()
    for text in texts:
        if most is not None and (library := _NOT_MAPPED.search(text)):
            return _not_loaded(library["library"], most)
        if _NO_MEMORY.search(text):
            return _no_room(text, most)
    return None


def _not_loaded(library: str, most: int) -> str:
    return (
        f"{library} cannot be loaded: a process may have {size(most)} of memory here (ulimit -v), "
        "and this takes more; raise the limit with `ulimit -v unlimited`, and start again"
    )


def _no_room(text: str, most: int | None) -> str:
    amount = _AMOUNT.search(text)
    more = f" for {size(int(float(amount['number']) * _UNITS[amount['unit']]))} more" if amount else ""
    if "CUDA" in text:
        return f"the GPU has no room{more}: {_LOWER}, end other programs that use it, or take --device cpu"
    if most is not None:
        return (
            f"there is not enough memory{more}: a process may have {size(most)} here (ulimit -v); raise the limit with "
            f"`ulimit -v unlimited`, or {_LOWER}"
        )
    return f"there is not enough memory{more} on this machine, or in this container: end other programs, or {_LOWER}"


def _most_addresses() -> int | None:
    """The bytes that a process may have in its address space; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
