"""The status of a run: running, solved, all steps done, interrupted, or broken off."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RunStatus:
    """`kind` is "running", "done", "interrupted" or "broken"; `text` describes it, with the progress."""

    kind: str
    text: str


def status_of(running: bool, reason: str | None, steps: float, target: float) -> RunStatus:
    """Returns the status of a run that has taken `steps` of `target` agent steps (NaN: unknown).

    `running` is whether a process trains the run. `reason` is why it stopped, from its summary: "" if the summary does
    not say, None if there is no summary because the run was killed or failed.
    """
    share = steps / target if target > 0 else math.nan
    # Rounded down: an unfinished run never shows 100%. A run resumed with more steps can exceed the recorded target.
    at = f" at {math.floor(100 * share)}%" if 0 <= share < 1 else ""
    if running:
        return RunStatus("running", f"running{at}")
    if reason is None:
        return RunStatus("broken", f"broke off{at}")
    if reason == "until":
        return RunStatus("done", "solved")
    if reason == "interrupted":
        return RunStatus("interrupted", f"interrupted{at}")
    if reason == "steps" or share >= 1:
        return RunStatus("done", "finished its steps")
    return RunStatus("interrupted", f"stopped{at}")
