"""Cuts a traceback down to the frames of the user's own code."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from pathlib import Path

_BEGIN = "Traceback (most recent call last):\n"
_GROUP = "Exception Group " + _BEGIN
# The sentence after an exception of which the next one, that it led to, was left out.
_LINK = re.compile(
    r"\n(The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\s*\Z"
)
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line \d+.*\n(?:^    .*\n)*', re.MULTILINE)
# The package's directory, not its name: a clone is called veldt, too, and may contain a user's file.
_PACKAGE = os.path.realpath(Path(__file__).parent.parent) + os.sep
# Libraries that only call the user's code. The user's environment may be in any other library.
_PASSES_ON = re.compile(r"/site-packages/(torch|gymnasium|numpy|ale_py)/|^<frozen ")
_STANDARD = sysconfig.get_path("stdlib") + "/"


def users_part(details: str) -> str:
    """Returns the traceback `details` from the user's first file on, without frames of the package's directory.

    Empty if no frame of the user's code remains: the error's sentence is then enough. Of chained exceptions, those
    without the user's code are left out. Text that `traceback.format_exception` did not make (the stack of a hung
    process), and a group of exceptions, which has a traceback for each, are returned unchanged.
    """
    if _BEGIN not in details or _GROUP in details:
        return details
    # The text between two sections says how their errors are chained; it belongs to the section after it.
    before, *sections = details.split(_BEGIN)
    kept = [section for section in map(_section, sections) if section]
    return _LINK.sub("", before + "".join(kept)).rstrip() if kept else ""


def raised_by_others(error: BaseException) -> str:
    """Returns ", raised by FUNCTION in FILE" if neither veldt nor Python's own library raised `error`; "" otherwise.

    So the handler of a signal that an environment has set is named, which runs between any two lines of veldt.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or _is_veldts(frames[-1].filename) or not _is_users(frames[-1].filename):
        return ""
    return f", raised by {frames[-1].name} in {frames[-1].filename}, line {frames[-1].lineno}"


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
