"""What a supervisor decides, wherever roles run: which are heard, which are started again, and when a run must end.

A role that dies, or has not beaten within its deadline (then it is killed), is started again with the same number and
arguments after a pause that doubles each time, as often as its budget allows. A role that has none, or has used it up,
ends the run with its traceback; so does one whose error veldt itself explains, since the same would happen again.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from veldt.errors import RoleError
from veldt.runtime.messages import unpack

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before a role is started again
_MAX_STARTUP_FAILURES = 3  # lives in a row that ended before they began: the next would, too
_STALLED = 1.0  # seconds between two looks: for what is beyond, everybody may have been stopped
_ECHO_S = 2.0  # within which the one shows whose failure another's was
_CALM = 30.0  # seconds of life after which a role's pauses begin anew


@dataclass(frozen=True)
class RolePlan:
    """One process of the graph.

    Args:
        name: what it is called in messages: "actor 3".
        role: a function of a module, called with a `Control` and `arguments` (edges, settings) in the process.
        restarts: how often it may be started again.
        deadline_s: seconds between beats.
        begin_s: seconds until the first, where that takes longer.
        niceness: how far it stands back, where there are fewer cores than processes that could work.
        group: roles of the same group (not "") are started again together, whichever of them was lost.
    """

    name: str
    role: Callable[..., None]
    arguments: tuple[Any, ...]
    max_restarts: int
    deadline_s: float = 30.0
    niceness: int = 0
    group: str = ""
    startup_timeout_s: float = 0.0

    def patience_s(self, has_beaten: bool) -> float:
        """Seconds without a beat after which it counts as hung."""
        return self.deadline_s if has_beaten else max(self.deadline_s, self.startup_timeout_s)


@dataclass(frozen=True)
class RoleMessage:
    """What a role said, or (kind "restarted") what became of it."""

    role: int
    kind: str
    values: dict[str, Any]
    arrays: dict[str, np.ndarray]


class ProcessHandle(Protocol):
    """A role's process, from one start to its end."""

    @property
    def waits(self) -> bool:
        """Whether it is still to be given a place to work at: then it cannot be hung."""

    @property
    def heartbeats(self) -> int:
        """How often the role has beaten, in whichever life."""

    def heard(self) -> list[bytes]:
        """Packed messages that have come since the last call."""

    def alive(self) -> bool: ...

    def cause_of_death(self) -> str:
        """What is known of it, as the end of a sentence."""

    def stack(self, trace: int) -> str:
        """Where the role is, asked within a second or so; `trace` is what it said when it started. "" if unknown."""

    def kill(self) -> None:
        """Ends it at once."""


class SupervisedRole:
    """One role, through all its lives."""

    def __init__(self, plan: RolePlan, number: int) -> None:
        self.plan, self.number = plan, number
        self.process: ProcessHandle | None = None
        self.restart_count, self.trace = 0, -1
        self.began = self.due = 0.0
        self.pause = _FIRST_PAUSE
        self.heartbeats, self.heartbeat_at, self.has_sent_heartbeat = -1, 0.0, False
        self.startup_failures = 0
        self.has_ended = False
        self.died_at = math.inf
        self.failure: dict[str, Any] | None = None  # the error that it reported itself


class Supervision(ABC):
    """Everything happens in `poll`, which the owner calls often."""

    def __init__(self, plans: Sequence[RolePlan]) -> None:
        self.places = [SupervisedRole(plan, number) for number, plan in enumerate(plans)]
        self.stopping, self._snapshots = False, 0
        self._looked_at = time.monotonic()
        self._unsaid: list[RoleMessage] = []  # what was heard in a look that failed

    @abstractmethod
    def begun(self, place: SupervisedRole) -> ProcessHandle:
        """Starts the place's next life."""

    def can_begin(self, place: SupervisedRole) -> bool:
        """Whether there is room for its next life."""
        return True

    @abstractmethod
    def wait(self, patience_s: float) -> None:
        """Sleeps until a role may have said something, or for so long."""

    @abstractmethod
    def tell(self, *, stopping: bool, snapshot: int) -> None:
        """What all roles are to know, those that are still to start too."""

    def start(self) -> None:
        for place in self.places:
            self._begin(place)

    def poll(self, patience_s: float) -> list[RoleMessage]:
        """Waits up to `patience_s` for messages, and sees to the dead and the hung. RoleError where a run must end."""
        self.wait(patience_s)
        messages, self._unsaid = self._unsaid, []
        now = time.monotonic()
        stalled = max(0.0, now - self._looked_at - patience_s - _STALLED)
        self._looked_at = now
        try:
            for place in self.places:
                place.heartbeat_at += stalled
                messages += self._hear(place)
            for place in self.places:
                messages += self._see_to(place, now)
        except BaseException:
            self._unsaid = messages + self._unsaid
            raise
        return messages

    def request_snapshot(self) -> int:
        """Asks roles, those that are still to start too, for their state; returns the number of that snapshot."""
        self._snapshots += 1
        self.tell(stopping=self.stopping, snapshot=self._snapshots)
        return self._snapshots

    def snapshot_done(self) -> None:
        """No snapshot is wanted any more."""
        self.tell(stopping=self.stopping, snapshot=0)

    def has_ended(self, role: int) -> bool:
        """Whether the role of this number has ended, and will not be started again."""
        return self.places[role].has_ended

    def alike(self, number: int) -> list[int]:
        """Numbers of the roles that are what the one of this number is, itself among them."""
        role = self.places[number].plan.role
        return [place.number for place in self.places if place.plan.role is role]

    @property
    def all_ended(self) -> bool:
        return all(place.has_ended for place in self.places)

    def stop(self, patience_s: float) -> list[RoleMessage]:
        """Asks all roles to end, hears what they still say, and kills those that have not ended in time."""
        self.stopping = True
        self.tell(stopping=True, snapshot=0)
        end, messages = time.monotonic() + patience_s, []
        while not self.all_ended and time.monotonic() < end:
            messages += self.poll(0.05)
        self.kill()
        return messages

    def kill(self) -> None:
        """Ends all roles at once."""
        for place in self.places:
            if place.process is not None:
                place.process.kill()
                place.process = None

    def _begin(self, place: SupervisedRole) -> None:
        place.process = self.begun(place)
        place.failure, place.trace, place.died_at = None, -1, math.inf
        place.began = place.heartbeat_at = time.monotonic()
        place.heartbeats, place.has_sent_heartbeat = place.process.heartbeats, False

    def _hear(self, place: SupervisedRole) -> list[RoleMessage]:
        heard = []
        for message in place.process.heard() if place.process is not None else ():
            values, arrays = unpack(message)
            kind = values.pop("kind")
            if kind == "started":
                place.trace, place.startup_failures = values["trace"], -1
            elif kind == "failed":
                place.failure = values
            elif kind == "ended":
                place.has_ended = True
            heard.append(RoleMessage(place.number, kind, values, arrays))
        return heard

    def _see_to(self, place: SupervisedRole, now: float) -> list[RoleMessage]:
        if place.has_ended:
            return []
        life = place.process
        if life is None:
            if now >= place.due and not self.stopping and self.can_begin(place):
                place.restart_count += 1
                self._begin(place)
            elif self.stopping:
                place.has_ended = True
            return []
        if not life.alive():
            heard = self._hear(place)
            place.died_at = min(place.died_at, now)
            if place.has_ended or (self._only_misses_another(place) and now - place.died_at < _ECHO_S):
                return heard
            return heard + self._lost(place, now, life.cause_of_death())
        beats, patience_s = life.heartbeats, place.plan.patience_s(place.has_sent_heartbeat)
        if beats != place.heartbeats or life.waits:
            place.has_sent_heartbeat |= beats != place.heartbeats
            place.heartbeats, place.heartbeat_at = beats, now
        elif now - place.heartbeat_at > patience_s:
            cause = f"gave no sign of life for {patience_s:g} s"
            return self._lost(place, now, cause, life.stack(place.trace))
        return []

    def _lost(self, place: SupervisedRole, now: float, cause: str, stack: str = "") -> list[RoleMessage]:
        """What is to be done about a role that is dead or hung."""
        heard = []
        for other in self._group(place):
            heard += self._hear(other)
            if other.process is not None and other.failure is not None and other.failure["is_final"]:
                place = other  # the others only miss it
        plan, said = place.plan, place.failure
        assert place.process is not None
        place.process.kill()
        place.process = None
        why = f"failed ({said['error']})" if said else cause
        place.startup_failures += 1
        is_final = (said is not None and said["is_final"]) or place.startup_failures == _MAX_STARTUP_FAILURES
        if self.stopping:
            place.has_ended = True
            return heard
        if place.restart_count >= plan.max_restarts or is_final:
            place.has_ended, self._unsaid = True, heard
            used_up = f" once more, after {place.restart_count} restarts" if place.restart_count else ""
            details = said["details"] if said else stack
            raise RoleError(f"the {plan.name} {why}{used_up}", details=details, is_final=is_final)
        if now - place.began > _CALM:
            place.pause = _FIRST_PAUSE
        place.due, place.pause = now + place.pause, min(2 * place.pause, _LONGEST_PAUSE)
        self._end_group(place)
        values = {"name": plan.name, "why": why, "details": said["details"] if said else stack}
        return [*heard, RoleMessage(place.number, "restarted", values, {})]

    def _only_misses_another(self, place: SupervisedRole) -> bool:
        """Whether it failed because another of its group did, of whom nothing is known yet."""
        return place.failure is not None and place.failure.get("is_echo", False) and bool(self._group(place))

    def _group(self, one: SupervisedRole) -> list[SupervisedRole]:
        """The others that are started again with it."""
        group = one.plan.group
        return [place for place in self.places if group and place is not one and place.plan.group == group]

    def _end_group(self, lost: SupervisedRole) -> None:
        """Ends the others of its group, which are started again when it is, as often as it was."""
        for place in self._group(lost):
            if place.process is not None:
                place.process.kill()
                place.process = None
            place.restart_count, place.due, place.pause = lost.restart_count, lost.due, lost.pause
