"""The command line: `veldt VERB ...`. Flags, help and checks all come from dataclasses."""

from veldt.cli.entry import main

__all__ = ["main"]
