"""Roles in processes: their messages arrive, they are restarted when they die or hang, and they end with the run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import pytest

from fork_servers import env_context
from veldt.errors import RoleError
from veldt.runtime import process_state
from veldt.runtime.role_messages import Received, Restarted, RoleMessage, Started
from veldt.runtime.roles import Control
from veldt.runtime.supervision.local import Supervisor
from veldt.runtime.supervision.plans import RolePlan
from veldt.runtime.watchdog import within

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Working(RoleMessage, kind="at-work"):
    attempt: np.ndarray
    task: str
    peers: list[int]


@dataclass(frozen=True)
class Finishing(RoleMessage, kind="at-the-end"):
    pass


@dataclass(frozen=True)
class Begun(RoleMessage, kind="begun"):
    pass


@dataclass(frozen=True)
class Never(RoleMessage, kind="unsent"):
    pass


def works(control: Control, task: str) -> None:
    peers = [control.peers.index, control.peers.count]
    control.send(Working(np.array([control.restart_count]), task, peers))
    while not control.stopping:
        control.heartbeat()
        time.sleep(0.01)
    control.send(Finishing())


def fails(control: Control) -> None:
    control.heartbeat()
    raise ValueError("two and two are five")


def hangs_at_first(control: Control) -> None:
    if control.restart_count:
        works(control, "again")
    time.sleep(1000)


def stuck(control: Control) -> None:
    while True:  # whatever it is asked
        control.heartbeat()
        time.sleep(0.01)


@contextmanager
def supervised(*plans: RolePlan) -> Iterator[tuple[Supervisor, Callable[..., list[Any]]]]:
    """A supervisor of running roles, and a function that polls it until a number of messages of a kind have arrived."""
    supervisor = Supervisor(env_context(), plans)

    heard: list[Received] = []

    def hear(kind: type[RoleMessage], count: int = 1) -> list[Any]:
        """The next messages of a kind; others stay to be asked for."""
        end = time.monotonic() + DEADLINE_S
        while len(found := [one for one in heard if isinstance(one.message, kind)]) < count:
            assert time.monotonic() < end, f"heard only {heard}"
            heard.extend(supervisor.poll(0.05))
        taken = found[:count]
        heard[:] = [message for message in heard if not any(message is one for one in taken)]
        return taken

    supervisor.start()
    try:
        yield supervisor, hear
    finally:
        supervisor.kill()


def does_not_hear(control: Control) -> None:
    with within(0.5, lambda: 0, lambda: "the answer is overdue"):
        while True:
            with contextlib.suppress(TimeoutError):
                time.sleep(1000)


def begins_slowly(control: Control) -> None:
    time.sleep(3.0)
    control.heartbeat()
    control.send(Begun())
    time.sleep(1000)


def plan(
    role: Callable[..., None], *arguments: Any, max_restarts: int = 0, deadline_s: float = 30.0
) -> RolePlan:
    return RolePlan(role.__name__, role, arguments, max_restarts, deadline_s)


def test_messages_of_roles_arrive_and_roles_end_on_request() -> None:
    with supervised(plan(works, "a"), plan(works, "b")) as (supervisor, hear):
        heard = hear(Working, 2)
        assert sorted((message.role, message.message.task) for message in heard) == [(0, "a"), (1, "b")]
        assert sorted(tuple(message.message.peers) for message in heard) == [(0, 2), (1, 2)]
        assert all(one.message.attempt.tolist() == [0] for one in heard)
        last = supervisor.stop(DEADLINE_S)
        assert sum(isinstance(one.message, Finishing) for one in last) == 2 and supervisor.all_ended


def test_a_killed_role_is_restarted_with_the_same_arguments() -> None:
    with supervised(plan(works, "a", max_restarts=3), plan(works, "b")) as (_, hear):
        started = hear(Started, 2)
        hear(Working, 2)
        for attempt in (1, 2):
            os.kill(next(m for m in started if m.role == 0).message.pid, signal.SIGKILL)
            (lost,) = hear(Restarted)
            assert lost.role == 0 and lost.message.name == "works" and "SIGKILL" in lost.message.why
            started = hear(Started)
            (again,) = hear(Working)
            assert again.role == 0 and again.message.attempt.tolist() == [attempt]
            assert (again.message.task, again.message.peers) == ("a", [0, 2])


def test_a_group_starts_and_ends_together() -> None:
    members = [RolePlan(f"member {n}", works, ("a",), 3, group="members") for n in range(2)]
    with supervised(*members, plan(works, "alone", max_restarts=1)) as (_, hear):
        started = hear(Started, 3)
        hear(Working, 3)
        os.kill(next(m for m in started if m.role == 1).message.pid, signal.SIGKILL)
        assert hear(Restarted)[0].role == 1
        again = hear(Working, 2)
        assert sorted((m.role, *m.message.attempt) for m in again) == [(0, 1), (1, 1)]


def says_half(control: Control) -> None:
    os.write(control._pipe.fileno(), (100).to_bytes(8, "little") + b"half")  # type: ignore[attr-defined]
    os.kill(os.getpid(), signal.SIGSTOP)


def test_poll_does_not_wait_for_the_rest_of_a_message() -> None:
    with supervised(plan(says_half, max_restarts=0, deadline_s=4.0), plan(works, "a")) as (_, hear):
        hear(Working)
        began = time.monotonic()
        with pytest.raises(RoleError, match="says_half sent no heartbeat"):
            hear(Never)
        assert time.monotonic() - began < 30.0


def test_the_message_of_a_watchdog_that_ends_a_role_arrives() -> None:
    with supervised(plan(does_not_hear, max_restarts=3)) as (_, hear):
        with pytest.raises(RoleError, match=r"does_not_hear failed \(the answer is overdue\)$") as error:
            hear(Never)
        assert "time.sleep(1000)" in error.value.details


@pytest.mark.alone  # a sign of life each second
def test_the_deadline_of_the_first_heartbeat_is_longer() -> None:
    slow = RolePlan("slow", begins_slowly, (), max_restarts=0, deadline_s=1.0, startup_timeout_s=60.0)
    with supervised(slow) as (_, hear):
        hear(Begun)
        with pytest.raises(RoleError, match="slow sent no heartbeat for 1 s"):
            hear(Never)


def test_a_final_failure_of_a_role_ends_the_run_with_its_traceback() -> None:
    with supervised(plan(works, "a"), plan(fails)) as (_, hear):
        with pytest.raises(
            RoleError, match=r"^the fails failed \(ValueError: two and two are five\)$"
        ) as error:
            hear(Never)
        assert "raise ValueError" in error.value.details


def test_a_role_is_restarted_at_most_max_restarts_times() -> None:
    expected = pytest.raises(
        RoleError, match=r"five\) once more, after 1 restart \(--max-restarts is 1, and a larger"
    )
    with supervised(plan(fails, max_restarts=1)) as (_, hear), expected:
        hear(Restarted, 2)


@pytest.mark.alone  # a sign of life each second
@pytest.mark.parametrize("stopped", [False, True])
def test_a_hung_role_is_killed_and_restarted(stopped: bool) -> None:
    role = works if stopped else hangs_at_first
    arguments = ("a",) if stopped else ()
    with supervised(plan(role, *arguments, max_restarts=1, deadline_s=1.0)) as (_, hear):
        if stopped:
            pid = hear(Started)[0].message.pid
            hear(Working)
            os.kill(pid, signal.SIGSTOP)
        (lost,) = hear(Restarted)
        assert lost.message.why == "sent no heartbeat for 1 s"
        if not stopped:
            assert "hangs_at_first" in lost.message.details
        assert hear(Working)[0].message.attempt.tolist() == [1]


def test_a_stopped_role_is_restarted_long_before_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_state, "STOPPED_S", 0.3)
    with supervised(plan(works, "a", max_restarts=1, deadline_s=1000.0)) as (_, hear):
        pid = hear(Started)[0].message.pid
        hear(Working)
        os.kill(pid, signal.SIGSTOP)
        (lost,) = hear(Restarted)
        assert lost.message.why == "was stopped for 0.3 s (SIGSTOP, by hand or by another program)"
        assert hear(Working)[0].message.attempt.tolist() == [1]


def test_roles_that_do_not_end_on_request_are_killed() -> None:
    with supervised(plan(stuck), plan(stuck)) as (supervisor, hear):
        pids = [message.message.pid for message in hear(Started, 2)]
        supervisor.stop(0.3)
        assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
