"""What roles say of themselves, over all their lives."""

from __future__ import annotations

from typing import Any

from veldt.exchange.pace import Pace, PaceSpec
from veldt.systems.role_figures import RoleFigures
from veldt.systems.stages import StageClock


def said(attempt: int, phantoms: int, restarts: int) -> dict[str, Any]:
    seconds = dict.fromkeys(("simulate", "infer", "replay", "wait"), 1.0)
    return {"attempt": attempt, "phantoms": phantoms, "simulator_restarts": restarts, "seconds": seconds}


def test_counts_go_on_when_an_actor_is_started_again() -> None:
    pace = Pace(PaceSpec(2, 1, 0.0, 0, 1, 0.0), context=None)
    figures = RoleFigures(["actor 0", "actor 1"], pace, StageClock())
    counts = []
    for role, message in [
        (0, said(0, 2, 1)),
        (1, said(0, 3, 0)),
        (0, said(0, 5, 4)),
        (0, said(1, 5, 0)),  # as many as before, in another life
        (0, said(2, 6, 2)),
    ]:
        figures.actor(role, message)
        counts.append((figures.new_phantoms(), figures.simulator_restarts))
    assert counts == [(2, 1), (3, 1), (3, 4), (5, 4), (6, 6)]
