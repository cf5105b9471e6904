"""How a run stands: training now, solved, at the end of its steps, interrupted, or broken off without a word."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """`kind` is "running", "done", "interrupted" or "broken"; `text` says it with how far the run came."""

    kind: str
    text: str


def state_of(running: bool, reason: str | None, steps: float, target: float) -> State:
    """The state of a run that has taken `steps` of `target` agent steps (NaN: unknown).

    `running` is whether a process trains in it, `reason` is what its summary says about why it stopped: "" where the
    summary says nothing, None where there is no summary, because the run was killed or failed.
    """
    share = steps / target if target > 0 else math.nan
    # Rounded down: what has not ended is never at 100%. One resumed with more steps is beyond the target recorded.
    at = f" at {math.floor(100 * share)}%" if 0 <= share < 1 else ""
    if running:
        return State("running", f"running{at}")
    if reason is None:
        return State("broken", f"broke off{at}")
    if reason == "until":
        return State("done", "solved")
    if reason == "interrupted":
        return State("interrupted", f"interrupted{at}")
    if reason == "steps" or share >= 1:
        return State("done", "did its steps")
    return State("interrupted", f"stopped{at}")
