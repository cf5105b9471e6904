"""Whether the ends of a role, one after another, say that another start would end in the same way."""

from __future__ import annotations

import re

from veldt.runtime.activity import Doing
from veldt.runtime.role_messages import Failed

CALM_S = 30.0  # seconds of running after which an end is no longer one soon after the start
_MOST = 3  # consecutive ends of the same kind
_SEEDS_AND_STEPS = re.compile(r"(?<=\bseed |\bstep )\d+")


class Recurrence:
    """Counts the ends of one role that are alike, over its incarnations. Alike are:

    * ends before the role has started;
    * the same error soon after the start, whatever seed and step it names;
    * deaths soon after the start in the same user code, before an episode of it had ended. Later deaths are those of a
      role that works, and that something else kills now and then.
    """

    def __init__(self) -> None:
        self._failed_starts = 0
        self._kind, self._times = "", 0

    def has_started(self) -> None:
        """Called when the role's present incarnation has started."""
        self._failed_starts = -1

    def ended(self, failure: Failed | None, doing: Doing | None, lived_s: float) -> str:
        """Takes the next end; returns why the role need not be started again, as a sentence's end, or "".

        Args:
            failure: the error that the role has reported; None: it died.
            doing: the user code in which it died, if any.
            lived_s: seconds since its start.
        """
        self._failed_starts += 1
        kind, words = _kind_of(failure, doing, is_soon=lived_s <= CALM_S)
        self._kind, self._times = kind, self._times + 1 if kind == self._kind else 1
        if self._failed_starts == _MOST:
            return f"{_MOST} starts in a row have failed"
        return f"{words} {_MOST} times in a row" if kind and self._times == _MOST else ""


def _kind_of(failure: Failed | None, doing: Doing | None, *, is_soon: bool) -> tuple[str, str]:
    """Returns what tells this end from others, "" for one that is like no other, and its words in the sentence."""
    if not is_soon or (failure is not None and failure.is_echo):
        return "", ""
    if failure is not None:
        return _SEEDS_AND_STEPS.sub("", failure.error), "the same error came"
    return doing.suspect if doing else "", "before an episode had ended, it died so"
