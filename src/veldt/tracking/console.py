"""Where tables are printed."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def output_console(file: IO[str] | None = None) -> Console:
    """A console as wide as standard output's terminal; whoever reads a file or a pipe wants whole lines.

    Args:
        file: where it writes instead of standard output, for which the text is meant in the end.
    """
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(file=file, force_terminal=terminal if file else None, width=None if terminal else 140)
