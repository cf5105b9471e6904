"""A program of `run_roles` while it runs: what its functions have sent, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from veldt.errors import RoleError
from veldt.exchange.graph import role_name
from veldt.own_loop.messages import Logged, Returned, StopAll
from veldt.own_loop.processes import Processes
from veldt.own_loop.values import unpacked
from veldt.runtime.role_messages import FailedAtEnd, Note, Received, Restarted
from veldt.runtime.supervision.interfaces import RunningRoles

_STILL_S = 5.0  # that others work on after a role has returned, until that is logged

Log = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Finished:
    """A program of `run_roles` that has ended.

    `reason` is "returned" (every function has, or those of a role with `ends_all`), "stopped" (by `stop_all`, and `why`
    is its sentence), "seconds" or "interrupted" (Ctrl-C, SIGTERM). `returned` has for each role what its processes have
    returned, in order: None for one that did not return in time when it was asked to end; `killed` has the names of
    these. `seconds` is the time since the start.
    """

    reason: str
    why: str
    seconds: float
    returned: Mapping[str, Sequence[Any]] = field(repr=False)
    killed: Sequence[str] = ()


class Program:
    """`returned` is by role, `why` the sentence of `stop_all`, and `killed` are names of processes, at the end."""

    def __init__(self, running: RunningRoles, roles: Mapping[str, Processes], log: Log) -> None:
        self._running, self._roles, self._log = running, roles, log
        # The user's processes come first in the graph, in this order.
        self._own = [(name, index) for name, processes in roles.items() for index in range(processes.count)]
        self._names = [role_name(name, index, roles[name].count) for name, index in self._own]
        self.returned: dict[str, list[Any]] = {
            name: [None] * processes.count for name, processes in roles.items()
        }
        self._is_stopped, self.why = False, ""
        self.killed: list[str] = []
        self._failure: RoleError | None = None
        self._log_rest_at: float | None = None  # when it is logged which processes still work

    def reason(self) -> str:
        """Returns why the program is to end, or ""."""
        if self._is_stopped:
            return "stopped"
        working = self._working()
        of_roles = {self._own[number][0] for number in working}
        ending = [name for name, processes in self._roles.items() if processes.ends_all]
        if not working or any(name not in of_roles for name in ending):
            return "returned"
        over = [name for name in self._roles if name not in of_roles]
        if over and not ending:
            self._log_rest(over, working)
        return ""

    def handle(self, messages: Sequence[Received]) -> None:
        for received in messages:
            match received.message:
                case Logged(values):
                    self._log(self._names[received.role], unpacked(values))
                case StopAll(why):
                    self.why = self.why if self._is_stopped else why
                    self._is_stopped = True
                case Returned(value):
                    role, index = self._own[received.role]
                    self.returned[role][index] = unpacked(value)
                case Restarted(name, why):
                    self._log(name, {"restarted": why})
                case FailedAtEnd(name, why, details) if received.role < len(self._own):
                    self._failure = self._failure or RoleError(f"the {name} {why}", details=details)
                case Note(text):
                    self._note(text)

    def check_end(self, stop_s: float, *, is_interrupted: bool) -> None:
        """Logs whose functions have not returned within `stop_s` seconds of being asked, when all have ended.

        Raises RoleError for one that has failed meanwhile; if the user has interrupted the program, logs it.
        """
        self.killed = [self._names[number] for number in self._working()]
        for name in self.killed:
            self._note(f"the {name} did not return within {stop_s:g} s and was killed")
        if self._failure is None:
            return
        if not is_interrupted:
            raise self._failure
        self._note(f"{self._failure}\n{self._failure.details}".rstrip())

    def _working(self) -> list[int]:
        return [number for number in range(len(self._own)) if not self._running.has_ended(number)]

    def _log_rest(self, over: Sequence[str], working: Sequence[int]) -> None:
        """Logs once which processes still work after a role has returned: the user may wait for the end in vain."""
        now = time.monotonic()
        self._log_rest_at = now + _STILL_S if self._log_rest_at is None else self._log_rest_at
        if now >= self._log_rest_at:
            self._log_rest_at = float("inf")
            have = "has" if len(over) == 1 else "have"
            still = ", ".join(self._names[number] for number in working)
            works = "works" if len(working) == 1 else "work"
            self._note(
                f"the {', '.join(over)} {have} returned; {still} still {works}: process.stop_all, or "
                "Processes(ends_all=True) of the role that returns, ends all"
            )

    def _note(self, text: str) -> None:
        self._log("veldt", {"note": text})


def print_values(process: str, values: Mapping[str, Any]) -> None:
    """Prints the values that a process has logged, or a note."""
    if values.keys() == {"note"}:
        print(f"{process}: {values['note']}", flush=True)
        return
    print(f"{process}: {', '.join(f'{name} {_shown(value)}' for name, value in values.items())}", flush=True)


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
