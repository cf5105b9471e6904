"""The decisions of a supervisor, wherever roles run: which roles are restarted, and when a run must end.

A role that dies, is stopped by a signal for too long, or sends no heartbeat within its deadline (then it is killed) is
restarted with the same number and arguments after a pause that doubles each time, up to `max_restarts` times. After
that the run ends with the role's traceback. It also ends if another start would fail in the same way: after an error
that veldt itself explains; and, unless the user has given the limit, after three failed starts in a row, or after the
same error three times in a row, each time soon after the start. A death in an env's first episode counts as an error.
"""

from __future__ import annotations

import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from veldt.errors import RoleError, VeldtError
from veldt.formatting import counted
from veldt.runtime.process_state import StopClock, stopped_too_long
from veldt.runtime.role_messages import (
    Ended,
    Failed,
    FailedAtEnd,
    Note,
    Received,
    Restarted,
    RoleMessage,
    Started,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before a role is restarted
_MAX_STARTUP_FAILURES = 3  # consecutive start-up failures after which a role is not restarted
_MAX_SAME_ERRORS = 3  # consecutive times of the same error, each in an incarnation of less than _CALM seconds
_STALLED = 1.0  # seconds between two polls; for longer gaps, all processes may have been stopped
_ECHO_S = 2.0  # seconds to find the role whose failure caused another's
_SEEDS_AND_STEPS = re.compile(r"(?<=\bseed |\bstep )\d+")
_CALM = 30.0  # seconds of running after which a role's restart pause is reset


@dataclass(frozen=True)
class RolePlan:
    """The plan of one role process.

    Args:
        name: the role's name in messages: "actor 3".
        role: a function of a module, called as `role(control, *arguments, **edges)` in the process.
        max_restarts: maximum number of restarts.
        is_limit_given: whether the user gave that number: then no other limit of this file holds.
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
    is_limit_given: bool = False
    edges: Mapping[str, Any] = field(default_factory=dict)

    def patience_s(self, has_sent_heartbeat: bool) -> float:
        """Returns the seconds without a heartbeat after which the role counts as hung."""
        return self.deadline_s if has_sent_heartbeat else max(self.deadline_s, self.startup_timeout_s)


class RunningRoles(Protocol):
    """The interface of the supervision of roles, as a driver uses it: `Supervision`, or `inline.InlineSupervisor`."""

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

    def works(self, role: int, silent_s: float) -> bool:
        """Whether this role has started, and has sent a heartbeat within `silent_s` seconds.

        A role with slow env steps may be silent for longer: for twice its longest silence so far.
        """

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

    def received(self) -> list[bytes]:
        """Returns the packed messages received since the last call."""

    def alive(self) -> bool: ...

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it; False where that is not known."""

    def cause_of_death(self) -> str:
        """Describes the cause, as the end of a sentence."""

    def suspect(self) -> str:
        """Returns the user code that may have ended the process, and may end the next as well; see `activity.Doing`."""

    def failure(self) -> Failed | None:
        """Returns the failure of user code that ended the process, if that is known to be the cause."""

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
        self.longest_silence_s = 0.0  # between two heartbeats of this incarnation
        self.stop_clock = StopClock()
        self.startup_failures = 0
        self.same_errors, self.last_error = 0, ""
        self.has_ended = False
        self.died_at = math.inf
        self.failure: Failed | None = None  # the error that the role reported


class Supervision(ABC):
    """Supervises roles in `poll`, which the owner calls often."""

    is_inline = False

    def __init__(self, plans: Sequence[RolePlan]) -> None:
        self.roles = [SupervisedRole(plan, number) for number, plan in enumerate(plans)]
        self.stopping, self._snapshots = False, 0
        self._polled_at = time.monotonic()
        self._undelivered: list[Received] = []  # messages received in a poll that raised
        self._unreadable: RoleError | None = None

    @abstractmethod
    def start_incarnation(self, role: SupervisedRole) -> ProcessHandle:
        """Starts the role's next incarnation."""

    def can_begin(self, role: SupervisedRole) -> bool:
        """Whether there is room for its next incarnation."""
        return True

    def check_places(self, now: float) -> list[Received]:
        """Handles roles that wait for a place to run, where that takes time. Raises as `poll` does."""
        return []

    def lost_servers(self) -> list[str]:
        """Returns a sentence for each fork server that was lost since the last call."""
        return []

    @abstractmethod
    def wait(self, patience_s: float) -> None:
        """Sleeps until a role may have sent a message, or for `patience_s` seconds."""

    @abstractmethod
    def broadcast(self, *, stopping: bool, snapshot: int) -> None:
        """Sets the state that all roles see, including roles that start later."""

    def start(self) -> None:
        for role in self.roles:
            self._begin(role)

    def poll(self, patience_s: float) -> list[Received]:
        """Waits up to `patience_s` for messages; handles dead and hung roles. RoleError if the run must end."""
        self.wait(patience_s)
        messages, self._undelivered = self._undelivered, []
        now = time.monotonic()
        stalled = max(0.0, now - self._polled_at - patience_s - _STALLED)
        self._polled_at = now
        messages += [Received(0, Note(text, "restart")) for text in self.lost_servers()]
        try:
            for role in self.roles:
                role.heartbeat_at += stalled
                messages += self._receive(role)
            if (error := self._unreadable) is not None:
                self._unreadable = None
                raise error
            for role in self.roles:
                messages += self._check(role, now)
            messages += self.check_places(now)
        except BaseException:
            self._undelivered = messages + self._undelivered
            raise
        return messages

    def request_snapshot(self) -> int:
        """Requests the state of all roles, including roles that start later; returns the snapshot's number."""
        self._snapshots += 1
        self.broadcast(stopping=self.stopping, snapshot=self._snapshots)
        return self._snapshots

    def snapshot_done(self) -> None:
        """Withdraws the request for a snapshot."""
        self.broadcast(stopping=self.stopping, snapshot=0)

    def flush(self, *, writing: bool = False, weights: bool = False) -> list[Received]:
        return []

    def has_ended(self, role: int) -> bool:
        """Whether this role has ended and will not be restarted."""
        return self.roles[role].has_ended

    def works(self, role: int, silent_s: float) -> bool:
        one = self.roles[role]
        usual_s = max(silent_s, 2 * one.longest_silence_s)
        has_begun = one.process is not None and one.has_sent_heartbeat
        return has_begun and time.monotonic() - one.heartbeat_at <= usual_s

    def alike(self, number: int) -> list[int]:
        """Returns the numbers of the roles of the same kind as this one, itself included."""
        return [role.number for role in self.roles if role.plan.role is self.roles[number].plan.role]

    @property
    def all_ended(self) -> bool:
        return all(role.has_ended for role in self.roles)

    def stop(self, patience_s: float) -> list[Received]:
        """Asks all roles to end, returns their last messages, and kills roles that do not end in time."""
        self.stopping = True
        self.broadcast(stopping=True, snapshot=0)
        end, messages = time.monotonic() + patience_s, []
        while not self.all_ended and time.monotonic() < end:
            messages += self.poll(0.05)
        self.kill()
        return messages

    def kill(self) -> None:
        """Kills all roles at once."""
        for role in self.roles:
            if role.process is not None:
                role.process.kill()
                role.process = None

    def _begin(self, role: SupervisedRole) -> None:
        role.process = self.start_incarnation(role)
        role.failure, role.trace, role.died_at = None, -1, math.inf
        role.began = role.heartbeat_at = time.monotonic()
        role.heartbeats, role.has_sent_heartbeat = role.process.heartbeats, False
        role.longest_silence_s, role.stop_clock = 0.0, StopClock()

    def _receive(self, role: SupervisedRole) -> list[Received]:
        messages = []
        for packed in role.process.received() if role.process is not None else ():
            try:
                message = RoleMessage.from_bytes(packed)
            except VeldtError as error:
                self._unreadable = RoleError(f"the {role.plan.name} sent {error}", is_final=True)
                continue
            match message:
                case Started():
                    role.trace, role.startup_failures = message.trace, -1
                    role.began = time.monotonic()  # on a busy machine or on Ray, long after it was asked for
                case Failed():
                    role.failure = message
                case Ended():
                    role.has_ended = True
            messages.append(Received(role.number, message))
        return messages

    def _check(self, role: SupervisedRole, now: float) -> list[Received]:
        if role.has_ended:
            return []
        process = role.process
        if process is None:
            if now >= role.due and not self.stopping and self.can_begin(role):
                role.restart_count += 1
                self._begin(role)
            elif self.stopping:
                role.has_ended = True
            return []
        if not process.alive():
            messages = self._receive(role)
            role.died_at = min(role.died_at, now)
            if role.failure is None and not role.has_ended:
                role.failure = process.failure()
            if role.has_ended or (self._only_misses_another(role) and now - role.died_at < _ECHO_S):
                return messages
            return messages + self._lost(role, now, process.cause_of_death())
        if role.stop_clock.is_over(process.is_stopped):
            return self._lost(role, now, stopped_too_long())
        heartbeats, patience_s = process.heartbeats, role.plan.patience_s(role.has_sent_heartbeat)
        if heartbeats != role.heartbeats or process.waits:
            if role.has_sent_heartbeat:
                role.longest_silence_s = max(role.longest_silence_s, now - role.heartbeat_at)
            role.has_sent_heartbeat |= heartbeats != role.heartbeats
            role.heartbeats, role.heartbeat_at = heartbeats, now
        elif now - role.heartbeat_at > patience_s:
            return self._lost(role, now, f"sent no heartbeat for {patience_s:g} s", process.stack(role.trace))
        return []

    def _lost(self, role: SupervisedRole, now: float, cause: str, stack: str = "") -> list[Received]:
        """Handles a dead, stopped or hung role: restarts it, or raises RoleError."""
        messages = []
        for other in self._group(role):
            messages += self._receive(other)
            if other.process is not None and other.failure is not None and other.failure.is_final:
                role = other  # the others failed only because of this one
        plan, failure = role.plan, role.failure
        assert role.process is not None
        error = failure.error if failure else role.process.suspect()
        role.process.kill()
        role.process = None
        why, details = (f"failed ({failure.error})", failure.details) if failure else (cause, stack)
        role.startup_failures += 1
        recurs = self._recurs(role, now, error)
        is_final = bool(recurs) or (failure is not None and failure.is_final)
        if self.stopping:
            role.has_ended = True
            return [*messages, Received(role.number, FailedAtEnd(plan.name, why, details))]
        if role.restart_count >= plan.max_restarts or is_final:
            role.has_ended, self._undelivered = True, messages
            larger = f"--max-restarts is {plan.max_restarts}, and a larger one allows more"
            limit, count = recurs if is_final else larger, role.restart_count
            reason = f" ({limit})" if limit else ""
            used_up = f" once more, after {counted(count, 'restart', 'restarts')}{reason}" if count else ""
            raise RoleError(f"the {plan.name} {why}{used_up}", details=details, is_final=is_final)
        if now - role.began > _CALM:
            role.pause = _FIRST_PAUSE
        role.due, role.pause = now + role.pause, min(2 * role.pause, _LONGEST_PAUSE)
        self._end_group(role)
        return [*messages, Received(role.number, Restarted(plan.name, why, details))]

    def _recurs(self, role: SupervisedRole, now: float, error: str) -> str:
        """Returns why another start would probably fail as well; "" if nothing says so, or the user gave the limit."""
        if role.plan.is_limit_given:
            return ""
        most = role.plan.max_restarts
        only = f"--max-restarts, where you give it, is the only limit, here {most} by default"
        if role.startup_failures == _MAX_STARTUP_FAILURES:
            return f"{_MAX_STARTUP_FAILURES} starts in a row have failed; {only}"
        if self._same_errors(role, now, error) == _MAX_SAME_ERRORS:
            what = "the same error came" if role.failure else "before an episode had ended, it died so"
            return f"{what} {_MAX_SAME_ERRORS} times in a row; {only}"
        return ""

    def _same_errors(self, role: SupervisedRole, now: float, error: str) -> int:
        """Counts how often in a row this role has had the error of now; its seeds and steps may differ."""
        is_echo = role.failure is not None and role.failure.is_echo
        error = "" if is_echo or now - role.began > _CALM else _SEEDS_AND_STEPS.sub("", error)
        role.same_errors = role.same_errors + 1 if error == role.last_error else 1
        role.last_error = error
        return role.same_errors if error else 0

    def _only_misses_another(self, role: SupervisedRole) -> bool:
        """Whether it failed because of another role of its group whose failure is not known yet."""
        return role.failure is not None and role.failure.is_echo and bool(self._group(role))

    def _group(self, one: SupervisedRole) -> list[SupervisedRole]:
        """Returns the other roles that are restarted together with it."""
        group = one.plan.group
        return [role for role in self.roles if group and role is not one and role.plan.group == group]

    def _end_group(self, lost: SupervisedRole) -> None:
        """Kills the other roles of its group; they restart together with it, with the same restart count."""
        for role in self._group(lost):
            if role.process is not None:
                role.process.kill()
                role.process = None
            role.restart_count, role.due, role.pause = lost.restart_count, lost.due, lost.pause
