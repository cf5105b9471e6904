"""A traceback cut down to what is its reader's own code."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

_BEGIN = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line \d+.*\n(?:^    .*\n)*', re.MULTILINE)
# The package's own directory, not its name: a clone is called veldt as well, and a user's file may lie in one.
_PACKAGE = os.path.realpath(Path(__file__).parent.parent) + os.sep
# Code that only passes on what the user's does. Any other library may be where the user's environment is.
_PASSES_ON = re.compile(r"/site-packages/(torch|gymnasium|numpy|ale_py)/|^<frozen ")
_STANDARD = sysconfig.get_path("stdlib") + "/"


def users_part(details: str) -> str:
    """The traceback `details` without frames of files in the package's directory, and from the user's first file on.

    Empty where nothing of the user's is left: what went wrong is then said in the sentence already. Of chained
    exceptions, those without the user's code are left out. What is not a traceback as `traceback.format_exception`
    makes it (the stack of a hung process) stays as it is.
    """
    if _BEGIN not in details:
        return details
    # Before each but the first stands which of the errors led to which; it goes with the one after it.
    before, *sections = details.split(_BEGIN)
    kept = [section for section in map(_section, sections) if section]
    return before + "".join(kept).rstrip() if kept else ""


def _section(text: str) -> str:
    frames = [match for match in _FRAME.finditer(text) if not _is_veldts(match["path"])]
    first = next((i for i, frame in enumerate(frames) if _is_users(frame["path"])), None)
    if first is None:
        return ""
    return _BEGIN + "".join(frame[0] for frame in frames[first:]) + _FRAME.sub("", text)


def _is_veldts(path: str) -> bool:
    return os.path.realpath(path).startswith(_PACKAGE)


def _is_users(path: str) -> bool:
    standard = path.startswith(_STANDARD) and "/site-packages/" not in path
    return not standard and not _PASSES_ON.search(path)
