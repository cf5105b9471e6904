"""The supervisor's handle of a role's host: Ray places it, then it begins and exchanges messages until its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from veldt.errors import UsageError, VeldtError
from veldt.runtime.on_ray.host import Host, HostNews, HostReport, PeerAddresses, RoleStart, installed
from veldt.runtime.role_messages import Failed

_STACK_S = 1.0
_BEGIN_S = 120.0  # seconds for a host to load the role's modules, even from a slow disk

# Messages have a thread of their own, so that they are received in the order in which each peer sent them.
_RemoteHost = ray.remote(concurrency_groups={"transport": 1, "control": 1}, max_restarts=0)(Host)


class RayProcessHandle:
    """See `supervision.ProcessHandle`. One thread sends requests and takes answers; the owner calls the rest.

    Args:
        start: makes the role's arguments; called when its host is placed, for the newest values of the counters.
    """

    def __init__(self, number: int, restart_count: int, start: Callable[[], RoleStart], gpus: int) -> None:
        self.number, self.attempt, self._start = number, restart_count, start
        self.actor: Any = _RemoteHost.options(num_cpus=1, num_gpus=gpus).remote()
        self.asked: Any = None  # the reference of the pending answer
        self.where: dict[str, Any] | None = None
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
        if self.where is None:
            self.asked = self.actor.here.remote([path for path in sys.path if path], os.getcwd())
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
            where = self.where["name"] if self.where else "a node"
            self.refused = VeldtError(
                f"a role could not begin on {where} ({type(error).__name__}: {cause}): install the packages "
                "that its environment and network import on every node of the cluster"
            )
            return None
        if isinstance(answer, dict):
            self.where, self._placed_at = answer, time.monotonic()
            if answer["veldt"] != installed():
                self.refused = UsageError(
                    f"node {answer['name']} of the cluster has veldt {answer['veldt']}, and this process has "
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
        return str(self.where["name"])

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
        return False  # it misses its deadline, then

    def cause_of_death(self) -> str:
        return self._died or "ended without a report"

    def failure(self) -> Failed | None:
        return None  # a host's memory is lost with it

    def stack(self, trace: int) -> str:
        with contextlib.suppress(RayError, GetTimeoutError):
            return str(ray.get(self.actor.stack.remote(), timeout=_STACK_S))
        return ""

    def kill(self) -> None:
        self.is_over = True
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self.actor, no_restart=True)
        # Ray only sends a request, which a stopped process (SIGSTOP) does not receive.
        here = ray.get_runtime_context().get_node_id()
        if self.where is not None and self.where["node"] == here:
            with contextlib.suppress(psutil.Error, OSError):
                if "ray::" in " ".join(psutil.Process(self.where["pid"]).cmdline()):
                    os.kill(self.where["pid"], signal.SIGKILL)


def _cause(text: str) -> str:
    """Returns Ray's reason for an actor's end, as the end of a sentence."""
    text = " ".join(text.split())
    if "node has died" in text or "node was terminated" in text or "node died" in text:
        return "was lost with its node"
    if "low on memory" in text:
        return "was killed for lack of memory on its node"
    if "creation task" in text:
        return f"could not be started ({text[-300:]})"
    return "died (killed by hand, or by the system for lack of memory, or failed in native code)"
