"""The supervisor: starts roles as processes, hears what they say, and starts again those that may be.

A role that dies, or has not beaten within its deadline (then it is killed), is started again with the same number and
arguments after a pause that doubles each time, as often as its budget allows. A role that has none, or has used it up,
ends the run with its traceback; so does one whose error veldt itself explains, since the same would happen again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from typing import Any

import numpy as np

from veldt.errors import RoleError
from veldt.runtime.inbox import Inbox
from veldt.runtime.messages import unpack
from veldt.runtime.processes import Child
from veldt.runtime.roles import Board, Identity, run_role

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before a role is started again
_CALM = 30.0  # seconds of life after which a role's pauses begin anew


@dataclass(frozen=True)
class RolePlan:
    """One process of the graph.

    Args:
        name: what it is called in messages: "actor 3".
        role: a function of a module, called with a `Control` and `arguments` (edges, settings) in the process.
        restarts: how often it may be started again.
        deadline_s: seconds between beats.
        niceness: how far it stands back, where there are fewer cores than processes that could work.
        group: roles of the same group (not "") are started again together, whichever of them was lost.
    """

    name: str
    role: Callable[..., None]
    arguments: tuple[Any, ...]
    restarts: int
    deadline_s: float = 30.0
    niceness: int = 0
    group: str = ""


@dataclass(frozen=True)
class Message:
    """What a role said, or (kind "restarted") what became of it."""

    role: int
    kind: str
    values: dict[str, Any]
    arrays: dict[str, np.ndarray]


class _Place:
    """One role, through all its lives."""

    def __init__(self, plan: RolePlan, number: int) -> None:
        self.plan, self.number = plan, number
        self.child: Child | None = None
        self.inbox: Inbox | None = None
        self.attempt, self.trace = 0, -1
        self.began = self.due = 0.0
        self.pause = _FIRST_PAUSE
        self.beats, self.beaten_at = -1, 0.0
        self.has_ended = False
        self.said: dict[str, Any] | None = None  # the error that it reported itself


class Supervisor:
    """See the module's text. Everything happens in `look`, which the owner calls often."""

    def __init__(self, context: ForkServerContext, plans: Sequence[RolePlan]) -> None:
        self._context = context
        self._board, self._snapshots = Board(len(plans), context), 0
        self._places = [_Place(plan, number) for number, plan in enumerate(plans)]

    def start(self) -> None:
        for place in self._places:
            self._start(place)

    def look(self, patience_s: float) -> list[Message]:
        """Waits up to `patience_s` for messages, and sees to the dead and the hung. RoleError where a run must end."""
        pipes = {place.child.pipe: place for place in self._places if place.child is not None}
        messages = []
        for pipe in wait(list(pipes), patience_s) if pipes else ():
            messages += self._hear(pipes[pipe])  # type: ignore[index]
        now = time.monotonic()
        for place in self._places:
            messages += self._see_to(place, now)
        return messages

    def want_snapshot(self) -> int:
        """Asks roles, those that are still to start too, for their state; returns the number of that snapshot."""
        self._snapshots += 1
        self._board.snapshot[0] = self._snapshots
        return self._snapshots

    def has_snapshot(self) -> None:
        """No snapshot is wanted any more."""
        self._board.snapshot[0] = 0

    @property
    def all_ended(self) -> bool:
        return all(place.has_ended for place in self._places)

    def stop(self, patience_s: float) -> list[Message]:
        """Asks all roles to end, hears what they still say, and kills those that have not ended in time."""
        self._board.stopping[0] = True
        end, messages = time.monotonic() + patience_s, []
        while not self.all_ended and time.monotonic() < end:
            messages += self.look(0.05)
        self.kill()
        return messages

    def kill(self) -> None:
        """Ends all roles at once."""
        for place in self._places:
            if place.child is not None:
                place.child.kill()
                place.child = None

    def _start(self, place: _Place) -> None:
        plan = place.plan
        who = Identity(plan.name, place.number, place.attempt, plan.niceness)
        arguments = (self._board, who, plan.role, plan.arguments)
        place.child = Child(self._context, plan.name, run_role, *arguments)
        place.inbox = Inbox(place.child.pipe.fileno())
        place.said, place.trace = None, -1
        place.began = place.beaten_at = time.monotonic()
        place.beats = int(self._board.beats[place.number])

    def _hear(self, place: _Place) -> list[Message]:
        assert place.inbox is not None
        heard = []
        for message in place.inbox.messages():
            values, arrays = unpack(message)
            kind = values.pop("kind")
            if kind == "started":
                place.trace = values["trace"]
            elif kind == "failed":
                place.said = values
            elif kind == "ended":
                place.has_ended = True
            heard.append(Message(place.number, kind, values, arrays))
        return heard

    def _see_to(self, place: _Place, now: float) -> list[Message]:
        if place.has_ended:
            return []
        if place.child is None:
            if now >= place.due and not self._board.stopping[0]:
                place.attempt += 1
                self._start(place)
            elif self._board.stopping[0]:
                place.has_ended = True
            return []
        if not place.child.alive():
            heard = self._hear(place)
            if place.has_ended:
                return heard
            return [*heard, self._lost(place, now, place.child.cause_of_death())]
        beats = int(self._board.beats[place.number])
        if beats != place.beats:
            place.beats, place.beaten_at = beats, now
        elif now - place.beaten_at > place.plan.deadline_s:
            stack = place.child.stack(place.trace)
            cause = f"gave no sign of life for {place.plan.deadline_s:g} s"
            return [self._lost(place, now, cause, stack)]
        return []

    def _lost(self, place: _Place, now: float, cause: str, stack: str = "") -> Message:
        """What is to be done about a role that is dead or hung."""
        plan, said = place.plan, place.said
        assert place.child is not None
        place.child.kill()
        place.child = None
        why = f"failed ({said['error']})" if said else cause
        is_final = said is not None and said["is_final"]
        if place.attempt >= plan.restarts or is_final or self._board.stopping[0]:
            place.has_ended = True
            if not self._board.stopping[0]:
                used_up = f" once more, after {place.attempt} restarts" if place.attempt else ""
                raise RoleError(f"the {plan.name} {why}{used_up}", details=said["details"] if said else stack)
        if now - place.began > _CALM:
            place.pause = _FIRST_PAUSE
        place.due, place.pause = now + place.pause, min(2 * place.pause, _LONGEST_PAUSE)
        self._end_group(place)
        values = {"name": plan.name, "why": why, "details": said["details"] if said else stack}
        return Message(place.number, "restarted", values, {})

    def _end_group(self, lost: _Place) -> None:
        """Ends the others of its group, which are started again when it is, as often as it was."""
        for place in self._places:
            if place is not lost and lost.plan.group and place.plan.group == lost.plan.group:
                if place.child is not None:
                    place.child.kill()
                    place.child = None
                place.attempt, place.due, place.pause = lost.attempt, lost.due, lost.pause
