"""The supervisor of roles that are Ray actors; its decisions are in `supervision`.

A thread polls every host continuously: it receives heartbeats, messages and counters, and sends the stop flag, the
peers' addresses and the other roles' counters. So a role never waits for the supervisor, and a host that does not
answer counts as one without a heartbeat.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import ray

from veldt.errors import RoleError
from veldt.runtime.on_ray.host import HostNews, HostReport, PeerAddresses, RoleStart
from veldt.runtime.on_ray.plans import HostedPlan
from veldt.runtime.on_ray.process_handle import RayProcessHandle
from veldt.runtime.role_messages import Note, Received
from veldt.runtime.roles import Peers, RoleIdentity
from veldt.runtime.supervision import SupervisedRole, Supervision

# Seconds between two polls of the same host; more with many hosts, since each costs this process about 0.2 ms.
_ASK_S, _ASK_EACH_S = 0.05, 0.0005
_ROOM_S = 60.0  # maximum seconds until a needed role is placed
_GIVE_S = 3.0  # seconds before an optional role gives up its place for it
_COUNT_S = 1.0  # seconds between two queries of the free CPUs
_REFUSED_S = 60.0  # seconds until a role whose host was refused is tried again
_SAY_S = 3.0  # seconds, from the start or the earliest restart, until a note names roles without room
_PLACED_S = 20.0  # seconds for Ray to start a role's process if a CPU is free


class RaySupervisor(Supervision):
    """See `Supervision`."""

    def __init__(self, plans: Sequence[HostedPlan]) -> None:
        super().__init__(plans)
        self._plans = list(plans)
        self._told, self._lives, self._met = HostNews(), dict[int, RayProcessHandle](), 0
        self._heard, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True, name="supervisor")
        self._failed: BaseException | None = None
        self._counted_at = self._gave_at = self._started_at = 0.0
        self._announced: frozenset[int] = frozenset()  # roles that a note named as waiting
        self._machines: dict[int, str] = {}  # current or last machine of each role

    def start(self) -> None:
        self._thread.start()
        self._started_at = time.monotonic()
        free = _free_cpus()
        for place in self.places:
            if self._plans[place.number].is_needed or free >= len(self.places):
                self._begin(place)
            else:
                place.restart_count = -1  # its first incarnation is still to come

    def begun(self, place: SupervisedRole) -> RayProcessHandle:
        plan, number, attempt = self._plans[place.number], place.number, place.restart_count
        for gauge in plan.gauges.values():
            gauge.begins(number)

        def start() -> RoleStart:
            return RoleStart(
                RoleIdentity(plan.name, number, attempt, plan.niceness, self._local_peers(number)),
                plan.role,
                plan.arguments,
                plan.edges,
                {at: gauge.told(number) for at, gauge in plan.gauges.items()},
            )

        life = RayProcessHandle(number, attempt, start, plan.gpus)
        self._lives = self._lives | {number: life}
        return life

    def wait(self, patience_s: float) -> None:
        self._heard.wait(patience_s)
        self._heard.clear()

    def tell(self, *, stopping: bool, snapshot: int) -> None:
        self._told = HostNews(stopping=stopping, snapshot=snapshot)

    def poll(self, patience_s: float) -> list[Received]:
        messages = super().poll(patience_s)
        if self._failed is not None:
            raise self._failed
        for life in self._lives.values():
            if life.refused is not None and not self.stopping and not life.is_over:
                if self._plans[life.number].is_needed:
                    raise life.refused
                messages.append(self._refused(life))
        return messages + self._see_to_room(time.monotonic())

    def can_begin(self, place: SupervisedRole) -> bool:
        """Optional roles do not wait in Ray's queue, where they would get the place of a role that died."""
        if self._plans[place.number].is_needed:
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
            place
            for place in self.places
            if isinstance(life := place.process, RayProcessHandle)
            and not life.has_room
            and self._plans[place.number].is_needed == needed
        ]

    def _see_to_room(self, now: float) -> list[Received]:
        texts = []
        waiting = [place for place in self._without_room(needed=True) if now - place.began > _GIVE_S]
        if waiting and self._all_fit():
            waiting = [place for place in waiting if now - place.began > _PLACED_S]
        if waiting:
            texts += self._given_up_for(waiting, now)
        for place in self._without_room(needed=False):
            if now - place.began > _ROOM_S:  # other work took the free CPUs
                self._take_back(place, now)
        here = {place.number for place in self.places if place.process is not None and place.heartbeats > 0}
        waiting_to_join = frozenset(
            place.number
            for place in self.places
            if place.process is None
            and not self._plans[place.number].is_needed
            and not place.has_ended
            and now > place.due + _SAY_S
        )
        if self._started_at + _SAY_S < now and not self.stopping:
            if new := waiting_to_join - self._announced:
                texts.append(f"{self._names(new)} without room: {_room()}; they join when nodes do")
            if joined := (self._announced & here) - waiting_to_join:
                texts.append(f"{self._names(joined)} joined")
            self._announced = waiting_to_join | (self._announced - here)
        return [Received(0, Note(text, "cluster")) for text in texts]

    def _all_fit(self) -> bool:
        """Whether the cluster has a CPU for each role that is placed or requested, if only this run used it."""
        return sum(place.process is not None for place in self.places) <= ray.cluster_resources().get(
            "CPU", 0
        )

    def _given_up_for(self, waiting: list[SupervisedRole], now: float) -> list[str]:
        """Takes the place of an optional role for a needed one; RoleError if there is none to take."""
        place, plan = waiting[0], self._plans[waiting[0].number]
        joined = [
            one for one in self.places if one.process is not None and not self._plans[one.number].is_needed
        ]
        if joined and not self.stopping and now > self._gave_at + _GIVE_S:
            self._gave_at = now
            self._take_back(joined[-1], now)
            return [f"the {joined[-1].plan.name} gave its place to the {plan.name}"]
        if now - place.began > _ROOM_S and not self.stopping:
            raise RoleError(
                f"no node of the cluster has had room for the {plan.name} for {_ROOM_S:g} s: it needs a CPU"
                f"{' and a GPU' if plan.gpus else ''}; {_room()}; add a node, or wait for other work on it to end"
            )
        return []

    def _take_back(self, place: SupervisedRole, now: float) -> None:
        assert place.process is not None
        place.process.kill()
        place.process, place.due = None, now

    def _refused(self, life: RayProcessHandle) -> Received:
        """Handles an optional role that cannot work where it was placed: training goes on without it for a while."""
        place = self.places[life.number]
        self._take_back(place, time.monotonic() + _REFUSED_S)
        note = Note(f"the {place.plan.name} does not join: {life.refused}", "cluster")
        return Received(place.number, note)

    def _names(self, numbers: frozenset[int]) -> str:
        return ", ".join(self._plans[number].name for number in sorted(numbers))

    # --------------------------------------------------------------------------------------- called in the thread

    def _talk(self) -> None:
        try:
            while not self._over.is_set():
                began, interval = time.monotonic(), max(_ASK_S, _ASK_EACH_S * len(self.places))
                lives = {number: life for number, life in self._lives.items() if self._is_current(life)}
                for life in lives.values():
                    if life.asked is None and self._may_ask(life):
                        life.ask(self._news(life), self._peers(life.number))
                if asked := {life.asked: life for life in lives.values() if life.asked is not None}:
                    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=interval)
                    for reference in ready:
                        self._take(asked[reference])
                self._over.wait(max(0.0, interval - (time.monotonic() - began)))
        except BaseException as error:
            self._failed = error
            self._heard.set()

    def _is_current(self, life: RayProcessHandle) -> bool:
        """Whether it can still send messages."""
        return not life.is_over and life.alive() and life.refused is None

    def _take(self, life: RayProcessHandle) -> None:
        had_begun = life.has_begun
        report: HostReport | None = life.answered()
        if life.where is not None:
            self._machines[life.number] = life.machine
        plan = self._plans[life.number]
        if life.has_begun and not had_begun:
            self._met += 1
        if report is not None:
            for at, value in report.gauges.items():
                plan.gauges[at].heard(life.number, value)
            if report.messages:
                self._heard.set()
        if not life.alive() or life.refused:
            for gauge in plan.gauges.values():
                gauge.lost(life.number)
            self._heard.set()

    def _may_ask(self, life: RayProcessHandle) -> bool:
        """Delays a needed role's first start until all of its kind are placed: they may share a machine's cores."""
        if life.where is None or life.attempt > 0 or not self._plans[life.number].is_needed:
            return True
        alike = self.alike(life.number)
        return all(other in self._machines for other in alike if self._plans[other].is_needed)

    def _local_peers(self, number: int) -> Peers:
        """Includes roles that will be restarted; when an optional role joins, the others are already placed."""
        machine = self._machines[number]
        return Peers.among(
            number, [other for other in self.alike(number) if self._machines.get(other) == machine]
        )

    def _news(self, life: RayProcessHandle) -> HostNews:
        plan, peers = self._plans[life.number], None
        if life.has_begun and life.met != self._met:
            life.met, peers = self._met, self._peers(life.number)
        gauges = {at: gauge.told(life.number) for at, gauge in plan.gauges.items()}
        return HostNews(0, self._told.stopping, self._told.snapshot, peers, gauges)

    def _peers(self, number: int) -> PeerAddresses:
        """Returns the addresses of a role's peers that are running."""
        names = set(self._plans[number].peers)
        return {
            self._plans[life.number].name: (life.attempt, life.handle)
            for life in self._lives.values()
            if life.has_begun and not life.is_over and self._plans[life.number].name in names
        }


def _free_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0))


def _room() -> str:
    total, free = ray.cluster_resources(), ray.available_resources()
    gpus = f" and {total['GPU']:g} GPUs ({free.get('GPU', 0):g} free)" if total.get("GPU") else ""
    return f"the cluster has {total.get('CPU', 0):g} CPUs ({free.get('CPU', 0):g} free){gpus}, and each role takes one"
