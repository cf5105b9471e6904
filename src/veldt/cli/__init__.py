"""The command line: `veldt VERB ...`. Flags, help and checks all come from dataclasses.

This module handles Ctrl-C for everything that is imported after it, so it imports as little as possible.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line `argv` (the process's own if None).

    Raises:
        SystemExit: 1 after a failure, 2 after a usage error, each with one sentence on stderr; 130 when interrupted
            before or without writing a checkpoint.
    """
    try:
        from veldt.cli.entry import run

        run(argv)
    except KeyboardInterrupt as interrupt:
        import sys

        from veldt.cli.streams import complain

        if sys.stderr is not None:
            complain("\n".join(["veldt: interrupted", *getattr(interrupt, "__notes__", ())]))
        raise SystemExit(130) from None
