"""The command line: `veldt VERB ...`. Flags, help and checks all come from dataclasses.

This file is all that is imported before somebody's Ctrl-C is answered properly, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line `argv` (the process's own if None).

    Raises:
        SystemExit: 1 after a failure, 2 after a usage error, each said in one sentence on stderr; 130 when interrupted
            before or instead of a checkpoint.
    """
    try:
        from veldt.cli.entry import run

        run(argv)
    except KeyboardInterrupt:
        import sys

        if sys.stderr is not None:
            print("veldt: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
