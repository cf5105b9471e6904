"""Errors a user sees: one clear sentence that says the cause, the value got, what is allowed and how to mend it.

The command line prints the sentence on stderr and exits with `exit_code`; a traceback is shown only with `--debug`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class VeldtError(Exception):
    """Something failed while running (exit code 1)."""

    exit_code = 1


class UsageError(VeldtError):
    """What was asked for cannot be done as asked (exit code 2)."""

    exit_code = 2


class SimulatorError(VeldtError):
    """An environment raised, returned something invalid, hung, or its process died.

    `simulator` is its index in the run, `seed` the seed of the episode it was playing, and `details` the
    traceback from the process in which it ran ("" where there is none).
    """

    def __init__(self, message: str, *, simulator: int = -1, seed: int = -1, details: str = "") -> None:
        super().__init__(message)
        self.simulator, self.seed, self.details = simulator, seed, details


class CheckpointError(VeldtError):
    """A checkpoint is missing, truncated, altered, or belongs to something else."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""
