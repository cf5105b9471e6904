"""The console that prints tables."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from veldt.standard_streams import is_terminal

if TYPE_CHECKING:
    from rich.console import Console


def output_console(file: IO[str] | None = None) -> Console:
    """A console as wide as the terminal of standard output; for a file or a pipe, wide enough for complete lines.

    Args:
        file: a buffer to write to instead of standard output, if the text is printed there later.
    """
    from rich.console import Console

    terminal = is_terminal(sys.stdout)
    return Console(file=file, force_terminal=terminal if file else None, width=None if terminal else 140)
