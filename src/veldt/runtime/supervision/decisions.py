"""The decisions of a supervisor, wherever roles run: which roles are restarted, and when a run must end.

A role that dies, is stopped by a signal for too long, or sends no heartbeat within its deadline (then it is killed) is
restarted with the same number and arguments after a pause that doubles each time, up to `max_restarts` times. After
that the run ends with the role's traceback. It also ends if another start would fail in the same way: after an error
that veldt itself explains; and, unless the user has given the limit, where the ends of a role repeat (`recurrence`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

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
from veldt.runtime.supervision.interfaces import ProcessHandle
from veldt.runtime.supervision.plans import RolePlan
from veldt.runtime.supervision.recurrence import CALM_S, Recurrence

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before a role is restarted
_STALLED = 1.0  # seconds between two polls; for longer gaps, all processes may have been stopped
_ECHO_S = 2.0  # seconds to find the role whose failure caused another's


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
        self.recurrence = Recurrence()
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

    def start(self, while_working: Callable[[], None] = lambda: None) -> None:
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
                    role.trace = message.trace
                    role.recurrence.has_started()
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
        doing = None if failure else role.process.user_code()
        role.process.kill()
        role.process = None
        why, details = (f"failed ({failure.error})", failure.details) if failure else (cause, stack)
        recurs = role.recurrence.ended(failure, doing, now - role.began)
        recurs = "" if plan.is_limit_given else recurs
        end = failure or doing
        is_final = bool(recurs) or (failure is not None and failure.is_final)
        if self.stopping:
            role.has_ended = True
            return [*messages, Received(role.number, FailedAtEnd(plan.name, why, details))]
        if role.restart_count >= plan.max_restarts or is_final:
            role.has_ended, self._undelivered = True, messages
            larger = f"--max-restarts is {plan.max_restarts}, and a larger one allows more"
            default = (
                f"--max-restarts, where you give it, is the only limit, here {plan.max_restarts} by default"
            )
            recurs = recurs and f"{recurs}; {default}"
            limit, count = recurs if is_final else larger, role.restart_count
            reason = f" ({limit})" if limit else ""
            used_up = f" once more, after {counted(count, 'restart', 'restarts')}{reason}" if count else ""
            raise RoleError(
                f"the {plan.name} {why}{used_up}",
                details=details,
                is_final=is_final,
                moment=end.moment if end else "",
                is_env_error=failure is not None and failure.is_env_error,
            )
        if now - role.began > CALM_S:
            role.pause = _FIRST_PAUSE
        role.due, role.pause = now + role.pause, min(2 * role.pause, _LONGEST_PAUSE)
        self._end_group(role)
        return [*messages, Received(role.number, Restarted(plan.name, why, details))]

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
