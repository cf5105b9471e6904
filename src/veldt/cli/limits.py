"""The message where this process may not open enough files, or start enough threads or processes."""

from __future__ import annotations

import errno
import resource

from veldt.runtime.endings import NO_MORE_PROCESSES

_ENOUGH = 1024
_LOW = 128  # a process that is started below this limit may end before it can say why


def why_too_few(error: BaseException | None) -> str | None:
    """Returns a sentence if `error`, or an error that led to it, comes from such a limit; None if not."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended_early = False
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            return _sentence(limit)
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return NO_MORE_PROCESSES
        ended_early = ended_early or isinstance(error, EOFError | ConnectionError)
        error = error.__cause__ or error.__context__
    return _sentence(limit) if ended_early and 0 <= limit < _LOW else None


def _sentence(limit: int) -> str:
    return (
        f"a process may open {limit:,} files at once here (ulimit -n), and this takes more: raise the limit with "
        f"`ulimit -n {_ENOUGH}`, and start again"
    )
