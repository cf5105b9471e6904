"""A screen in memory, and what was printed on it."""

from __future__ import annotations

import io

from rich.console import Console


def console(width: int = 200) -> Console:
    return Console(file=io.StringIO(), width=width)


def said_on(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()
