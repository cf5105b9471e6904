"""The process of a host, seen from its own machine: whether a signal has stopped it, and its end.

A stopped process (SIGSTOP) answers no request, and Ray's request to end does not reach it. The kernel of its machine
knows its state and can end it. For a host on another node, a task on that node asks the kernel.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import signal
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from veldt.runtime.on_ray.host_record import HostRecord
from veldt.runtime.process_state import is_running, is_stopped, start_of


@dataclass(frozen=True)
class HostPlace:
    """Where a host's process is: its node's id, its machine's name, and which process of that machine it is; the
    version of veldt there, and the descriptor of its record (`host_record`)."""

    node: str
    machine: str
    pid: int
    start: int
    veldt: str
    record: int

    @classmethod
    def of_this_process(cls, record: int) -> HostPlace:
        node, pid = ray.get_runtime_context().get_node_id(), os.getpid()
        return cls(node, platform.node(), pid, start_of(pid), installed(), record)


def installed() -> str:
    """Returns the version of veldt that is installed here."""
    return importlib.metadata.version("veldt")


class HostProcess:
    """The process at `place`; called by the thread that supervises roles, which never waits here.

    Attributes:
        record: what it was doing at its end; None on another machine.
    """

    def __init__(self, place: HostPlace) -> None:
        self._place = place
        self._is_here = place.node == ray.get_runtime_context().get_node_id()
        self._asked: Any = None  # the reference of a pending answer from another node
        self._was_stopped = False
        self.record = HostRecord(place.pid, place.start, place.record) if self._is_here else None

    def is_stopped(self, *, is_silent: bool) -> bool:
        """Whether a signal has stopped it. On another node it is looked at only while it is silent, with some delay."""
        if self._is_here:
            return is_stopped(self._place.pid, self._place.start)
        if not is_silent:
            self._was_stopped = False
        elif self._asked is None:
            self._asked = self._at_its_node(is_stopped)
        elif ray.wait([self._asked], timeout=0)[0]:
            asked, self._asked = self._asked, None
            self._was_stopped = False
            with contextlib.suppress(RayError):  # its node is lost
                self._was_stopped = bool(ray.get(asked))
        return self._was_stopped

    def kill(self, *, is_silent: bool) -> None:
        """Kills it, if Ray's own request may not reach it; its record is not read afterwards."""
        if self.record is not None:
            self.record.close()
        if self._is_here:
            _kill(self._place.pid, self._place.start)
        elif is_silent:
            self._at_its_node(_kill)

    def _at_its_node(self, function: Any) -> Any:
        there = NodeAffinitySchedulingStrategy(self._place.node, soft=False)
        task = ray.remote(num_cpus=0, max_retries=0)(function).options(scheduling_strategy=there)
        return task.remote(self._place.pid, self._place.start)


def _kill(pid: int, start: int) -> None:
    if is_running(pid, start):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
