"""The supervisor of roles that are Ray actors; its decisions are in `supervision.decisions`.

A thread polls every host continuously: it receives heartbeats, messages and counters, and sends the stop flag, the
peers' addresses and the other roles' counters. So a role never waits for the supervisor, and a host that does not
answer counts as one without a heartbeat.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import ray

from veldt.errors import RoleError
from veldt.runtime.on_ray.host import HostNews, HostReport, PeerAddresses, RoleStart
from veldt.runtime.on_ray.hosts import Hosts
from veldt.runtime.on_ray.plans import HostedPlan
from veldt.runtime.on_ray.process_handle import RayProcessHandle
from veldt.runtime.role_messages import Note, Received
from veldt.runtime.roles import Peers, RoleIdentity
from veldt.runtime.supervision.decisions import SupervisedRole, Supervision

# Seconds between two polls of the same host; more with many hosts, since each costs this process about 0.2 ms.
_POLL_S, _POLL_EACH_S = 0.05, 0.0005
_ROOM_S = 60.0  # maximum seconds until a needed role is placed
_MAKE_ROOM_S = 3.0  # seconds before an optional role gives up its role for it
_COUNT_S = 1.0  # seconds between two queries of the free CPUs
_REFUSED_S = 60.0  # seconds until a role whose host was refused is tried again
_ANNOUNCE_S = 3.0  # seconds, from the start or the earliest restart, until a note names roles without room
_PLACED_S = 20.0  # seconds for Ray to start a role's process if a CPU is free
_PROCESS_S = 120.0  # the same on a run's own Ray, even if other work has this machine's cores


class RaySupervisor(Supervision):
    """See `Supervision`.

    Args:
        hosts: starts the hosts; default: on a Ray that others may use as well.
    """

    def __init__(self, plans: Sequence[HostedPlan], hosts: Hosts | None = None) -> None:
        super().__init__(plans)
        self._plans, self._hosts = list(plans), hosts or Hosts(is_own=False)
        self._broadcast_news, self._handles, self._peers_version = (
            HostNews(),
            dict[int, RayProcessHandle](),
            0,
        )
        self._arrived, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._poll_hosts, daemon=True, name="supervisor")
        self._failed: BaseException | None = None
        self._counted_at = self._stopped_at = self._started_at = 0.0
        self._announced: frozenset[int] = frozenset()  # roles that a note named as waiting
        self._machines: dict[int, str] = {}  # current or last machine of each role

    def start(self, while_working: Callable[[], None] = lambda: None) -> None:
        self._thread.start()
        self._started_at = time.monotonic()
        have_room = self._hosts.is_own or _free_cpus() >= len(self.roles)
        for role in self.roles:
            if self._plans[role.number].is_needed or have_room:
                self._begin(role)
            else:
                role.restart_count = -1  # its first incarnation is still to come

    def start_incarnation(self, role: SupervisedRole) -> RayProcessHandle:
        plan, number, attempt = self._plans[role.number], role.number, role.restart_count
        for counter in plan.counters.values():
            counter.begins(number)

        def start() -> RoleStart:
            return RoleStart(
                RoleIdentity(plan.name, number, attempt, plan.niceness, self._local_peers(number)),
                plan.role,
                plan.arguments,
                plan.edges,
                {at: counter.counts_for(number) for at, counter in plan.counters.items()},
            )

        handle = RayProcessHandle(number, attempt, self._hosts.start(number, plan.gpus), start)
        self._handles = self._handles | {number: handle}
        return handle

    def wait(self, patience_s: float) -> None:
        self._arrived.wait(patience_s)
        self._arrived.clear()

    def broadcast(self, *, stopping: bool, snapshot: int) -> None:
        self._broadcast_news = HostNews(stopping=stopping, snapshot=snapshot)

    def check_places(self, now: float) -> list[Received]:
        messages = []
        if self._failed is not None:
            raise self._failed
        for handle in self._handles.values():
            if handle.refused is not None and not self.stopping and not handle.is_over:
                if self._plans[handle.number].is_needed:
                    raise handle.refused
                messages.append(self._refused(handle))
        self._hosts.keep_reserve()
        return messages + (self._check_starts(now) if self._hosts.is_own else self._check_room(now))

    def can_begin(self, role: SupervisedRole) -> bool:
        """Optional roles do not wait in Ray's queue, where they would take the room of a role that died."""
        if self._plans[role.number].is_needed or self._hosts.is_own:
            return True
        now = time.monotonic()
        if self._without_room(needed=True) or now < self._counted_at + _COUNT_S:
            return False
        self._counted_at = now
        return _free_cpus() - len(self._without_room(needed=False)) >= 1

    def kill(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        super().kill()

    def _without_room(self, *, needed: bool) -> list[SupervisedRole]:
        """Returns roles that Ray was asked to place and has not placed yet."""
        return [
            role
            for role in self.roles
            if isinstance(handle := role.process, RayProcessHandle)
            and not handle.has_room
            and self._plans[role.number].is_needed == needed
        ]

    def _check_starts(self, now: float) -> list[Received]:
        """Where all roles have room, one that is not placed waits for its process to start, or has lost it."""
        late = [role for needed in (True, False) for role in self._without_room(needed=needed)]
        messages: list[Received] = []
        for role in late:
            if role.process is not None and now - role.began > _PROCESS_S:
                messages += self._lost(role, now, f"did not start within {_PROCESS_S:g} s")
        return messages

    def _check_room(self, now: float) -> list[Received]:
        texts = []
        waiting = [role for role in self._without_room(needed=True) if now - role.began > _MAKE_ROOM_S]
        if waiting and self._all_fit():
            waiting = [role for role in waiting if now - role.began > _PLACED_S]
        if waiting:
            texts += self._make_room(waiting, now)
        for role in self._without_room(needed=False):
            if now - role.began > _ROOM_S:  # other work took the free CPUs
                self._withdraw(role, now)
        here = {role.number for role in self.roles if role.process is not None and role.heartbeats > 0}
        waiting_to_join = frozenset(
            role.number
            for role in self.roles
            if role.process is None
            and not self._plans[role.number].is_needed
            and not role.has_ended
            and now > role.due + _ANNOUNCE_S
        )
        if self._started_at + _ANNOUNCE_S < now and not self.stopping:
            if new := waiting_to_join - self._announced:
                texts.append(f"{self._names(new)} without room: {_room()}; they join when nodes do")
            if joined := (self._announced & here) - waiting_to_join:
                texts.append(f"{self._names(joined)} joined")
            self._announced = waiting_to_join | (self._announced - here)
        return [Received(0, Note(text, "cluster")) for text in texts]

    def _all_fit(self) -> bool:
        """Whether the cluster has a CPU for each role that is placed or requested, if only this run used it."""
        return sum(role.process is not None for role in self.roles) <= ray.cluster_resources().get("CPU", 0)

    def _make_room(self, waiting: list[SupervisedRole], now: float) -> list[str]:
        """Stops an optional role to make room for a needed one; RoleError if there is none."""
        role, plan = waiting[0], self._plans[waiting[0].number]
        joined = [
            one for one in self.roles if one.process is not None and not self._plans[one.number].is_needed
        ]
        if joined and not self.stopping and now > self._stopped_at + _MAKE_ROOM_S:
            self._stopped_at = now
            self._withdraw(joined[-1], now)
            return [f"the {joined[-1].plan.name} was stopped to make room for the {plan.name}"]
        if now - role.began > _ROOM_S and not self.stopping:
            raise RoleError(
                f"no node of the cluster has had room for the {plan.name} for {_ROOM_S:g} s: it needs a CPU"
                f"{' and a GPU' if plan.gpus else ''}; {_room()}; add a node, or wait for other work on it to end"
            )
        return []

    def _withdraw(self, role: SupervisedRole, now: float) -> None:
        assert role.process is not None
        role.process.kill()
        role.process, role.due = None, now

    def _refused(self, handle: RayProcessHandle) -> Received:
        """Handles an optional role that cannot work where it was placed: training continues without it for a while."""
        role = self.roles[handle.number]
        self._withdraw(role, time.monotonic() + _REFUSED_S)
        note = Note(f"the {role.plan.name} does not join: {handle.refused}", "cluster")
        return Received(role.number, note)

    def _names(self, numbers: frozenset[int]) -> str:
        return ", ".join(self._plans[number].name for number in sorted(numbers))

    # --------------------------------------------------------------------------------------- called in the thread

    def _poll_hosts(self) -> None:
        try:
            while not self._over.is_set():
                began, interval = time.monotonic(), max(_POLL_S, _POLL_EACH_S * len(self.roles))
                handles = {
                    number: handle for number, handle in self._handles.items() if self._is_current(handle)
                }
                for handle in handles.values():
                    if handle.asked is None and self._may_ask(handle):
                        handle.ask(self._news(handle), self._peers(handle.number))
                if asked := {handle.asked: handle for handle in handles.values() if handle.asked is not None}:
                    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=interval)
                    for reference in ready:
                        self._take(asked[reference])
                self._over.wait(max(0.0, interval - (time.monotonic() - began)))
        except BaseException as error:
            self._failed = error
            self._arrived.set()

    def _is_current(self, handle: RayProcessHandle) -> bool:
        """Whether it can still send messages."""
        return not handle.is_over and handle.alive() and handle.refused is None

    def _take(self, handle: RayProcessHandle) -> None:
        had_begun = handle.has_begun
        report: HostReport | None = handle.answered()
        if handle.where is not None:
            self._machines[handle.number] = handle.machine
        plan = self._plans[handle.number]
        if handle.has_begun and not had_begun:
            self._peers_version += 1
        if report is not None:
            for at, value in report.counters.items():
                plan.counters[at].receive_report(handle.number, value)
            if report.messages:
                self._arrived.set()
        if not handle.alive() or handle.refused:
            for counter in plan.counters.values():
                counter.lost(handle.number)
            self._arrived.set()

    def _may_ask(self, handle: RayProcessHandle) -> bool:
        """Delays a needed role's first start until all of its kind are placed: they may share a machine's cores."""
        if handle.where is None or handle.attempt > 0 or not self._plans[handle.number].is_needed:
            return True
        alike = self.alike(handle.number)
        return all(other in self._machines for other in alike if self._plans[other].is_needed)

    def _local_peers(self, number: int) -> Peers:
        """Includes roles that will be restarted; when an optional role joins, the others are already placed."""
        machine = self._machines[number]
        return Peers.among(
            number, [other for other in self.alike(number) if self._machines.get(other) == machine]
        )

    def _news(self, handle: RayProcessHandle) -> HostNews:
        plan, peers = self._plans[handle.number], None
        if handle.has_begun and handle.peers_version != self._peers_version:
            handle.peers_version, peers = self._peers_version, self._peers(handle.number)
        counters = {at: counter.counts_for(handle.number) for at, counter in plan.counters.items()}
        return HostNews(0, self._broadcast_news.stopping, self._broadcast_news.snapshot, peers, counters)

    def _peers(self, number: int) -> PeerAddresses:
        """Returns the addresses of a role's peers that are running."""
        names = set(self._plans[number].peers)
        return {
            self._plans[handle.number].name: (handle.attempt, handle.actor)
            for handle in self._handles.values()
            if handle.has_begun and not handle.is_over and self._plans[handle.number].name in names
        }


def _free_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0))


def _room() -> str:
    total, free = ray.cluster_resources(), ray.available_resources()
    gpus = f" and {total['GPU']:g} GPUs ({free.get('GPU', 0):g} free)" if total.get("GPU") else ""
    return f"the cluster has {total.get('CPU', 0):g} CPUs ({free.get('CPU', 0):g} free){gpus}, and each role takes one"
