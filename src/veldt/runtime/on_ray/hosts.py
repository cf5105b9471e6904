"""Starts hosts; on a run's own Ray, with some in reserve for roles that are restarted.

A new host is a new process, which loads torch and all else that a role needs: seconds, and a minute where other work
has the cores. Roles that are killed faster than that would never work. So from the first restart on, hosts that have
loaded everything wait for the next role that is lost. A run that loses none has none.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from veldt.runtime.on_ray.host import Host
from veldt.runtime.on_ray.host_process import HostProcess
from veldt.runtime.process_state import is_running, is_stopped
from veldt.runtime.processes import PRELOAD_ROLES

_RESERVE = 2  # hosts of about 400 MB each

# Messages have a thread of their own, so that they are received in the order in which each peer sent them.
_RemoteHost = ray.remote(concurrency_groups={"transport": 1, "control": 1}, max_restarts=0)(Host)


@dataclass(frozen=True)
class _Spare:
    """A host without a role; `place` refers to where it is, from when it has loaded what roles need."""

    actor: Any
    place: Any

    @property
    def is_loading(self) -> bool:
        return not ray.wait([self.place], timeout=0)[0]

    @property
    def is_alive(self) -> bool:
        """Whether it can still become a role's host, as far as is known."""
        if self.is_loading:
            return True
        with contextlib.suppress(RayError):
            place = ray.get(self.place)
            return is_running(place.pid, place.start) and not is_stopped(place.pid, place.start)
        return False

    def kill(self) -> None:
        with contextlib.suppress(RayError):
            HostProcess(ray.get(self.place)).kill(is_silent=True)


class Hosts:
    """The hosts of a run, over all its restarts.

    Args:
        is_own: whether the Ray was started for this run on this machine. There is room for every role then, and only
            there for a reserve.
    """

    def __init__(self, *, is_own: bool) -> None:
        self.is_own = is_own
        self._begun = set[int]()  # numbers of roles that have had a host
        self._has_lost_one = False
        self._reserve = deque[_Spare]()

    def start(self, number: int, gpus: int) -> Any:
        """Returns a host for role `number`: one of the reserve, if it has any, else a new one."""
        self._has_lost_one |= number in self._begun
        self._begun.add(number)
        while self._reserve and not gpus:
            spare = self._reserve.popleft()
            if spare.is_alive:
                return spare.actor
            spare.kill()  # it may be stopped
        return _RemoteHost.options(num_cpus=1, num_gpus=gpus).remote()

    def keep_reserve(self) -> None:
        """Called often. Starts one host at a time, since each takes a core from the roles while it loads."""
        if not self.is_own or not self._has_lost_one or len(self._reserve) >= _RESERVE:
            return
        if not any(spare.is_loading for spare in self._reserve):
            actor = _RemoteHost.options(num_cpus=0).remote()  # it takes no role's room
            self._reserve.append(_Spare(actor, actor.load.remote(*paths_here(), PRELOAD_ROLES)))


def paths_here() -> tuple[list[str], str]:
    """Returns where this process finds modules and files; a host must find them, too."""
    return [path for path in sys.path if path], os.getcwd()
