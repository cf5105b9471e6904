"""The supervisor's handle of a role's host: Ray places it, then it begins and exchanges messages until its end."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from veldt.errors import UsageError, VeldtError
from veldt.runtime.activity import Doing
from veldt.runtime.on_ray.host import HostNews, HostReport, PeerAddresses, RoleStart
from veldt.runtime.on_ray.host_process import HostPlace, HostProcess, installed
from veldt.runtime.on_ray.host_record import HostRecord
from veldt.runtime.on_ray.hosts import paths_here
from veldt.runtime.role_messages import Failed

_STACK_S = 1.0
_BEGIN_S = 120.0  # seconds for a host to load the role's modules, even from a slow disk
_UNKNOWN = "died (killed by hand, or by the system for lack of memory, or failed in native code)"
_SILENT_S = 2.0  # seconds without an answer after which the host's process is looked at on its machine


class RayProcessHandle:
    """See `interfaces.ProcessHandle`. One thread sends requests and takes answers; the owner calls the rest.

    Args:
        actor: its host.
        start: makes the role's arguments; called when its host is placed, for the newest values of the counters.
    """

    def __init__(self, number: int, restart_count: int, actor: Any, start: Callable[[], RoleStart]) -> None:
        self.number, self.attempt, self.actor, self._start = number, restart_count, actor, start
        self.asked: Any = None  # the reference of the pending answer
        self._asked_at = math.inf  # when the first request was sent that has no answer
        self.where: HostPlace | None = None
        self._process: HostProcess | None = None
        self.has_begun = self.is_over = False
        self._placed_at = 0.0
        self.refused: VeldtError | None = None
        self.peers_version = -1  # the version of the list of peers that was sent last
        self._news, self._report = HostNews(), HostReport(0, False, 0, [], {})
        self._messages: list[bytes] = []
        self._num_received = 0
        self._died = ""
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------ called by the thread that polls hosts

    def ask(self, news: HostNews, peers: PeerAddresses) -> None:
        """Sends the next request: where the host is, the role to begin, or an exchange."""
        self._asked_at = min(self._asked_at, time.monotonic())
        if self.where is None:
            self.asked = self.actor.here.remote(*paths_here())
        elif not self.has_begun:
            self.asked = self.actor.begin.remote(self._start(), peers)
        else:
            self.asked = self.actor.exchange.remote(replace(news, num_received=self._num_received))

    def answered(self) -> HostReport | None:
        """Takes the answer that has arrived."""
        asked, self.asked = self.asked, None
        try:
            answer = ray.get(asked)
        except ActorUnavailableError:  # it may recover; if not, it will miss its deadline
            return None
        except RayActorError as error:
            self._died = _cause(str(error))
            return None
        except (RayError, Exception) as error:
            # A host that fails itself would fail again, mostly because it cannot import the user's modules.
            cause = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
            where = self.where.machine if self.where else "a node"
            self.refused = VeldtError(
                f"a role could not begin on {where} ({type(error).__name__}: {cause}): install the packages "
                "that its environment and network import on every node of the cluster"
            )
            return None
        self._asked_at = math.inf
        if isinstance(answer, HostPlace):
            self._process, self.where, self._placed_at = HostProcess(answer), answer, time.monotonic()
            if answer.veldt != installed():
                self.refused = UsageError(
                    f"node {answer.machine} of the cluster has veldt {answer.veldt}, and this process has "
                    f"{installed()}: install the same version on all nodes"
                )
        elif isinstance(answer, HostReport):
            with self._lock:
                self._messages += answer.messages[self._num_received - answer.first :]
                self._num_received = answer.first + len(answer.messages)
                self._report = answer
            return answer
        else:
            self.has_begun = True
        return None

    # ------------------------------------------------------------------------------------------- called by the owner

    @property
    def has_room(self) -> bool:
        """Whether Ray has placed it."""
        return self.where is not None or bool(self._died)

    @property
    def machine(self) -> str:
        """The name of its machine, once it is placed."""
        assert self.where is not None
        return self.where.machine

    @property
    def waits(self) -> bool:
        return not self.has_room or (not self.has_begun and time.monotonic() - self._placed_at < _BEGIN_S)

    @property
    def heartbeats(self) -> int:
        return self._report.heartbeats

    def received(self) -> list[bytes]:
        with self._lock:
            messages, self._messages = self._messages, []
        return messages

    def alive(self) -> bool:
        return not self._died and not self._report.has_ended

    @property
    def is_stopped(self) -> bool:
        return self._process is not None and self._process.is_stopped(is_silent=self._is_silent)

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._asked_at > _SILENT_S

    def cause_of_death(self) -> str:
        if (record := self._left_behind) and (doing := record.doing()):
            return (
                f"died{doing.ran} (killed by hand, by the system for lack of memory, or ended by that code)"
            )
        return self._died or "ended without a report"

    def user_code(self) -> Doing | None:
        record = self._left_behind
        return None if record is None else record.doing()

    def failure(self) -> Failed | None:
        record = self._left_behind
        crash = record.crash() if record else ""
        if record is None or not crash:
            return None
        doing, how = record.doing(), "process crashed in native code"
        if doing is None:
            return Failed(f"its {how}", crash, False)
        return Failed(f"{doing.what}: the {how}", crash, doing.is_final, moment=doing.moment)

    @property
    def _left_behind(self) -> HostRecord | None:
        """The record of a host that has died, if Ray does not know why."""
        return self._process.record if self._process is not None and self._died == _UNKNOWN else None

    def stack(self, trace: int) -> str:
        with contextlib.suppress(RayError, GetTimeoutError):
            return str(ray.get(self.actor.stack.remote(), timeout=_STACK_S))
        return ""

    def kill(self) -> None:
        self.is_over = True
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self.actor, no_restart=True)
        if self._process is not None:
            self._process.kill(is_silent=self._is_silent)


def _cause(text: str) -> str:
    """Returns Ray's reason for an actor's end, as the end of a sentence."""
    text = " ".join(text.split())
    if "node has died" in text or "node was terminated" in text or "node died" in text:
        return "was lost with its node"
    if "low on memory" in text:
        return "was killed for lack of memory on its node"
    if "creation task" in text:
        return f"could not be started ({text[-300:]})"
    return _UNKNOWN
