"""The decisions of a supervisor, wherever roles run: which roles are restarted, and when a run must end.

A role that dies, or sends no heartbeat within its deadline (then it is killed), is restarted with the same number and
arguments after a pause that doubles each time, up to `max_restarts` times. After that the run ends with the role's
traceback. It also ends if veldt itself explains the error, since the same error would occur again.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from veldt.errors import RoleError, VeldtError
from veldt.runtime.role_messages import Ended, Failed, Received, Restarted, RoleMessage, Started

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before a role is restarted
_MAX_STARTUP_FAILURES = 3  # consecutive start-up failures after which a role is not restarted
_STALLED = 1.0  # seconds between two polls; for longer gaps, all processes may have been stopped
_ECHO_S = 2.0  # seconds to find the role whose failure caused another's
_CALM = 30.0  # seconds of running after which a role's restart pause is reset


@dataclass(frozen=True)
class RolePlan:
    """The plan of one role process.

    Args:
        name: the role's name in messages: "actor 3".
        role: a function of a module, called as `role(control, *arguments, **edges)` in the process.
        max_restarts: maximum number of restarts.
        deadline_s: maximum seconds between heartbeats.
        startup_timeout_s: maximum seconds until the first heartbeat, if longer.
        niceness: the process's niceness, where there are fewer cores than processes with work.
        group: roles of the same group (not "") are restarted together, whichever of them failed.
    """

    name: str
    role: Callable[..., None]
    arguments: tuple[Any, ...]
    max_restarts: int
    deadline_s: float = 30.0
    niceness: int = 0
    group: str = ""
    startup_timeout_s: float = 0.0
    edges: Mapping[str, Any] = field(default_factory=dict)

    def patience_s(self, has_beaten: bool) -> float:
        """Returns the seconds without a heartbeat after which the role counts as hung."""
        return self.deadline_s if has_beaten else max(self.deadline_s, self.startup_timeout_s)


class RunningRoles(Protocol):
    """What a driver needs of whoever runs the roles: `Supervision`, or `inline.InlineSupervisor`."""

    @property
    def is_inline(self) -> bool:
        """Whether roles run in this process: then they work only while the driver polls them."""

    @property
    def all_ended(self) -> bool: ...

    def start(self) -> None: ...

    def poll(self, patience_s: float) -> list[Received]: ...

    def request_snapshot(self) -> int: ...

    def snapshot_done(self) -> None: ...

    def flush(self, *, writing: bool = False, weights: bool = False) -> list[Received]:
        """Returns at once what roles in this process would send later: their metrics, with `writing` also records of
        segments, when these are on disk, and with `weights` their weights. Other roles send metrics by themselves."""

    def has_ended(self, role: int) -> bool: ...

    def stop(self, patience_s: float) -> list[Received]: ...

    def kill(self) -> None: ...


class ProcessHandle(Protocol):
    """One incarnation of a role: its process, from one start to its end."""

    @property
    def waits(self) -> bool:
        """Whether it still waits for a place to run: then it cannot be hung."""

    @property
    def heartbeats(self) -> int:
        """Number of heartbeats of the role, over all incarnations."""

    def heard(self) -> list[bytes]:
        """Returns the packed messages received since the last call."""

    def alive(self) -> bool: ...

    def cause_of_death(self) -> str:
        """Describes the cause, as the end of a sentence."""

    def stack(self, trace: int) -> str:
        """Returns the role's stack within about a second, "" if unknown; `trace` is from its "started" message."""

    def kill(self) -> None:
        """Kills it at once."""


class SupervisedRole:
    """One role, over all its incarnations."""

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
        self.failure: Failed | None = None  # the error that the role reported


class Supervision(ABC):
    """Supervises roles in `poll`, which the owner calls often."""

    is_inline = False

    def __init__(self, plans: Sequence[RolePlan]) -> None:
        self.places = [SupervisedRole(plan, number) for number, plan in enumerate(plans)]
        self.stopping, self._snapshots = False, 0
        self._looked_at = time.monotonic()
        self._undelivered: list[Received] = []  # messages received in a poll that raised
        self._unreadable: RoleError | None = None

    @abstractmethod
    def begun(self, place: SupervisedRole) -> ProcessHandle:
        """Starts the role's next incarnation."""

    def can_begin(self, place: SupervisedRole) -> bool:
        """Whether there is room for its next incarnation."""
        return True

    @abstractmethod
    def wait(self, patience_s: float) -> None:
        """Sleeps until a role may have sent a message, or for `patience_s` seconds."""

    @abstractmethod
    def tell(self, *, stopping: bool, snapshot: int) -> None:
        """Sets the state that all roles see, including roles that start later."""

    def start(self) -> None:
        for place in self.places:
            self._begin(place)

    def poll(self, patience_s: float) -> list[Received]:
        """Waits up to `patience_s` for messages; handles dead and hung roles. RoleError if the run must end."""
        self.wait(patience_s)
        messages, self._undelivered = self._undelivered, []
        now = time.monotonic()
        stalled = max(0.0, now - self._looked_at - patience_s - _STALLED)
        self._looked_at = now
        try:
            for place in self.places:
                place.heartbeat_at += stalled
                messages += self._hear(place)
            if (error := self._unreadable) is not None:
                self._unreadable = None
                raise error
            for place in self.places:
                messages += self._see_to(place, now)
        except BaseException:
            self._undelivered = messages + self._undelivered
            raise
        return messages

    def request_snapshot(self) -> int:
        """Requests the state of all roles, including roles that start later; returns the snapshot's number."""
        self._snapshots += 1
        self.tell(stopping=self.stopping, snapshot=self._snapshots)
        return self._snapshots

    def snapshot_done(self) -> None:
        """Withdraws the request for a snapshot."""
        self.tell(stopping=self.stopping, snapshot=0)

    def flush(self, *, writing: bool = False, weights: bool = False) -> list[Received]:
        return []

    def has_ended(self, role: int) -> bool:
        """Whether this role has ended and will not be restarted."""
        return self.places[role].has_ended

    def alike(self, number: int) -> list[int]:
        """Returns the numbers of the roles of the same kind as this one, itself included."""
        role = self.places[number].plan.role
        return [place.number for place in self.places if place.plan.role is role]

    @property
    def all_ended(self) -> bool:
        return all(place.has_ended for place in self.places)

    def stop(self, patience_s: float) -> list[Received]:
        """Asks all roles to end, returns their last messages, and kills roles that do not end in time."""
        self.stopping = True
        self.tell(stopping=True, snapshot=0)
        end, messages = time.monotonic() + patience_s, []
        while not self.all_ended and time.monotonic() < end:
            messages += self.poll(0.05)
        self.kill()
        return messages

    def kill(self) -> None:
        """Kills all roles at once."""
        for place in self.places:
            if place.process is not None:
                place.process.kill()
                place.process = None

    def _begin(self, place: SupervisedRole) -> None:
        place.process = self.begun(place)
        place.failure, place.trace, place.died_at = None, -1, math.inf
        place.began = place.heartbeat_at = time.monotonic()
        place.heartbeats, place.has_sent_heartbeat = place.process.heartbeats, False

    def _hear(self, place: SupervisedRole) -> list[Received]:
        heard = []
        for packed in place.process.heard() if place.process is not None else ():
            try:
                message = RoleMessage.from_bytes(packed)
            except VeldtError as error:
                self._unreadable = RoleError(f"the {place.plan.name} sent {error}", is_final=True)
                continue
            match message:
                case Started():
                    place.trace, place.startup_failures = message.trace, -1
                case Failed():
                    place.failure = message
                case Ended():
                    place.has_ended = True
            heard.append(Received(place.number, message))
        return heard

    def _see_to(self, place: SupervisedRole, now: float) -> list[Received]:
        if place.has_ended:
            return []
        process = place.process
        if process is None:
            if now >= place.due and not self.stopping and self.can_begin(place):
                place.restart_count += 1
                self._begin(place)
            elif self.stopping:
                place.has_ended = True
            return []
        if not process.alive():
            heard = self._hear(place)
            place.died_at = min(place.died_at, now)
            if place.has_ended or (self._only_misses_another(place) and now - place.died_at < _ECHO_S):
                return heard
            return heard + self._lost(place, now, process.cause_of_death())
        beats, patience_s = process.heartbeats, place.plan.patience_s(place.has_sent_heartbeat)
        if beats != place.heartbeats or process.waits:
            place.has_sent_heartbeat |= beats != place.heartbeats
            place.heartbeats, place.heartbeat_at = beats, now
        elif now - place.heartbeat_at > patience_s:
            cause = f"gave no sign of life for {patience_s:g} s"
            return self._lost(place, now, cause, process.stack(place.trace))
        return []

    def _lost(self, place: SupervisedRole, now: float, cause: str, stack: str = "") -> list[Received]:
        """Handles a dead or hung role: restarts it, or raises RoleError."""
        heard = []
        for other in self._group(place):
            heard += self._hear(other)
            if other.process is not None and other.failure is not None and other.failure.is_final:
                place = other  # the others failed only because of this one
        plan, failure = place.plan, place.failure
        assert place.process is not None
        place.process.kill()
        place.process = None
        why = f"failed ({failure.error})" if failure else cause
        place.startup_failures += 1
        is_final = (
            failure is not None and failure.is_final
        ) or place.startup_failures == _MAX_STARTUP_FAILURES
        if self.stopping:
            place.has_ended = True
            return heard
        if place.restart_count >= plan.max_restarts or is_final:
            place.has_ended, self._undelivered = True, heard
            used_up = f" once more, after {place.restart_count} restarts" if place.restart_count else ""
            details = failure.details if failure else stack
            raise RoleError(f"the {plan.name} {why}{used_up}", details=details, is_final=is_final)
        if now - place.began > _CALM:
            place.pause = _FIRST_PAUSE
        place.due, place.pause = now + place.pause, min(2 * place.pause, _LONGEST_PAUSE)
        self._end_group(place)
        restarted = Restarted(plan.name, why, failure.details if failure else stack)
        return [*heard, Received(place.number, restarted)]

    def _only_misses_another(self, place: SupervisedRole) -> bool:
        """Whether it failed because of another role of its group whose failure is not known yet."""
        return place.failure is not None and place.failure.is_echo and bool(self._group(place))

    def _group(self, one: SupervisedRole) -> list[SupervisedRole]:
        """Returns the other roles that are restarted together with it."""
        group = one.plan.group
        return [place for place in self.places if group and place is not one and place.plan.group == group]

    def _end_group(self, lost: SupervisedRole) -> None:
        """Kills the other roles of its group; they restart together with it, with the same restart count."""
        for place in self._group(lost):
            if place.process is not None:
                place.process.kill()
                place.process = None
            place.restart_count, place.due, place.pause = lost.restart_count, lost.due, lost.pause
