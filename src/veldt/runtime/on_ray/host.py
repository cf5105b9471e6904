"""The Ray actor in which a role runs: its control, its transport, and its thread."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray

from veldt.runtime.on_ray.host_process import HostPlace
from veldt.runtime.on_ray.host_record import write_record
from veldt.runtime.on_ray.transport import Envelope, HostTransport, Transport, opened
from veldt.runtime.processes import name_process
from veldt.runtime.role_messages import Ended, Failed, RoleMessage, Started
from veldt.runtime.roles import RoleIdentity, failure_of
from veldt.runtime.watchdog import report_hang_to
from veldt.user_code.torch_state import users_torch

# Python's thread switch interval in seconds: messages must not wait long for a role that computes.
_SWITCH_S = 0.001
_LAST_WORDS_S = 5.0
_MAX_UNACKNOWLEDGED = 1000  # messages that may wait for the supervisor before `send` blocks

PeerAddresses = Mapping[str, tuple[int, Any]]  # by name: its incarnation, and its host


class EdgeMaker(Protocol):
    """An edge of a role, whose end is opened in the role's process."""

    def open(self, transport: Transport) -> Any: ...


class CounterSync(Protocol):
    """An edge whose counters are continuously exchanged with the supervisor's process."""

    def report(self) -> Any: ...

    def receive_counts(self, value: Any) -> None: ...


@dataclass(frozen=True)
class RoleStart:
    """The role that a host is to run."""

    who: RoleIdentity
    role: Callable[..., None]
    arguments: tuple[Any, ...]
    edges: Mapping[str, EdgeMaker | list[EdgeMaker]]
    counters: Mapping[str, Any]  # by parameter of each `CounterSync`: its first value


@dataclass(frozen=True)
class HostNews:
    """From the supervisor. `num_received` counts messages received so far; `peers` and `counters` have changes only."""

    num_received: int = 0
    stopping: bool = False
    snapshot: int = 0
    peers: PeerAddresses | None = None
    counters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostReport:
    """To the supervisor: messages from number `first` on; `has_ended` if the role sends no more after them."""

    heartbeats: int
    has_ended: bool
    first: int
    messages: list[bytes]
    counters: Mapping[str, Any]


class HostControl:
    """See `roles.Control`."""

    def __init__(self, who: RoleIdentity) -> None:
        self.restart_count, self.peers = who.restart_count, who.peers
        self.stopping, self.requested_snapshot, self.heartbeats = False, 0, 0
        self._first, self._messages = 0, list[bytes]()
        self._lock = threading.Lock()

    def heartbeat(self) -> None:
        self.heartbeats += 1

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def send(self, message: RoleMessage) -> None:
        while len(self._messages) >= _MAX_UNACKNOWLEDGED and not self.stopping:
            time.sleep(0.01)
        packed = message.to_bytes()
        with self._lock:
            self._messages.append(packed)

    def messages_from(self, first: int) -> tuple[int, list[bytes]]:
        """Returns the messages from number `first` on; earlier ones are deleted."""
        with self._lock:
            del self._messages[: first - self._first]
            self._first = first
            return first, list(self._messages)

    def send_failure(self, sentence: str, where: str, is_final: bool) -> None:
        """Sends the role's failure, and waits until the supervisor has received it."""
        self.send(Failed(sentence, where, is_final))
        end = time.monotonic() + _LAST_WORDS_S
        while self._messages and time.monotonic() < end:
            time.sleep(0.01)


class Host:
    """A role's process on any node with room. Transport and control have a thread each, and so has the role."""

    def __init__(self) -> None:
        sys.setswitchinterval(_SWITCH_S)
        self._record = write_record()
        self._thread: threading.Thread | None = None
        self._counters: dict[str, CounterSync] = {}

    @ray.method(concurrency_group="control")
    def here(self, paths: Sequence[str], directory: str) -> HostPlace:
        """Makes modules and files resolve as in the driver. Returns where this host is."""
        sys.path.extend(path for path in paths if path not in sys.path)
        with contextlib.suppress(OSError):  # a node without this directory needs absolute paths
            os.chdir(directory)
        return HostPlace.of_this_process(self._record)

    @ray.method(concurrency_group="control")
    def load(self, paths: Sequence[str], directory: str, modules: Sequence[str]) -> HostPlace:
        """Loads modules that any role may need, before it is known which role this host gets."""
        place = self.here(paths, directory)
        for name in modules:
            importlib.import_module(name)
        return place

    @ray.method(concurrency_group="control")
    def begin(self, start: RoleStart, peers: PeerAddresses) -> None:
        """Starts the role; a repeated call does nothing, since the caller may have missed the first answer."""
        if self._thread is not None:
            return
        self._control = HostControl(start.who)
        self._transport = HostTransport(start.who.name, start.who.restart_count, ray.put)
        self._set_peers(peers)
        edges: dict[str, Any] = {
            parameter: [one.open(self._transport) for one in edge]
            if isinstance(edge, list)
            else edge.open(self._transport)
            for parameter, edge in start.edges.items()
        }
        for parameter, value in start.counters.items():
            self._counters[parameter] = edges[parameter]
            edges[parameter].receive_counts(value)
        self._thread = threading.Thread(target=self._run, args=(start, edges), daemon=True, name="role")
        self._thread.start()

    @ray.method(concurrency_group="control")
    def exchange(self, news: HostNews) -> HostReport:
        """Takes the supervisor's news and returns a report."""
        self._control.stopping, self._control.requested_snapshot = news.stopping, news.snapshot
        if news.peers is not None:
            self._set_peers(news.peers)
        for parameter, value in news.counters.items():
            self._counters[parameter].receive_counts(value)
        # Checked before the messages are taken: a role that has ended sends no more.
        has_ended = self._thread is not None and not self._thread.is_alive()
        counters = {parameter: counter.report() for parameter, counter in self._counters.items()}
        return HostReport(
            self._control.heartbeats, has_ended, *self._control.messages_from(news.num_received), counters
        )

    @ray.method(concurrency_group="control")
    def stack(self) -> str:
        """Returns the role's stack."""
        ident = self._thread.ident if self._thread is not None else None
        frame = sys._current_frames().get(ident) if ident is not None else None
        return "".join(traceback.format_stack(frame)) if frame else ""

    @ray.method(concurrency_group="transport")
    def receive(self, envelope: Envelope, by_reference: Any = None) -> None:
        """Receives a message."""
        self._transport.deliver(*opened(envelope, by_reference))

    def _set_peers(self, peers: PeerAddresses) -> None:
        self._transport.set_peers(
            {
                name: (incarnation, host.receive.options(num_returns=0).remote)
                for name, (incarnation, host) in peers.items()
            }
        )

    def _run(self, start: RoleStart, edges: Mapping[str, Any]) -> None:
        control, who = self._control, start.who
        name_process(who.name)
        users_torch.take_from_imports()
        os.nice(who.niceness)  # of this thread, and of threads that it starts
        report_hang_to(control.send_failure)
        control.send(Started(trace=-1, pid=os.getpid()))
        try:
            start.role(control, *start.arguments, **edges)
        except BaseException as error:
            control.send(failure_of(error))
        else:
            control.send(Ended())
