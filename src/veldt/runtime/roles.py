"""The role's side of supervision: sends heartbeats and messages, and checks whether it must stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from veldt.errors import EnvError, PeerLostError, RoleError, VeldtError, described, traceback_of
from veldt.runtime import activity
from veldt.runtime.messages import write_message
from veldt.runtime.processes import GLOO_ON_LOOPBACK, leave_signals_to_parent
from veldt.runtime.role_messages import Ended, Failed, RoleMessage, Started
from veldt.runtime.shared import Layout, SharedArrays
from veldt.runtime.stack_dump import enable_stack_dump
from veldt.runtime.watchdog import report_hang_to
from veldt.user_code.attribution import named_error
from veldt.user_code.torch_state import users_torch

# Errors that would occur again: those that veldt explains itself, and a lack of memory. Others may be accidents.
_FINAL = (VeldtError, MemoryError)


def failure_of(error: BaseException) -> Failed:
    """Returns a role's failure message."""
    shown = named_error(error) or error
    details = getattr(shown, "details", "") or traceback_of(error)
    what = str(shown) if isinstance(shown, VeldtError) else described(shown)
    is_final = error.is_final if isinstance(error, RoleError) else isinstance(error, _FINAL)
    is_echo, is_env_error = isinstance(error, PeerLostError), isinstance(shown, EnvError)
    return Failed(what, details, is_final, is_echo, is_env_error)


@dataclass(frozen=True)
class Peers:
    """The role's index among the `count` roles of the same kind on its machine."""

    index: int
    count: int

    @classmethod
    def among(cls, number: int, numbers: Sequence[int]) -> Peers:
        """Returns the position of role `number` among the roles `numbers`."""
        return cls(numbers.index(number), len(numbers))


class Control(Protocol):
    """Connects a role to its supervisor, on any machine."""

    restart_count: int  # number of earlier starts of the role
    peers: Peers

    @property
    def stopping(self) -> bool:
        """Whether the role must end; to be checked wherever it may wait."""

    @property
    def requested_snapshot(self) -> int:
        """Number of the requested snapshot, to which each role with state contributes once; 0 for none."""

    def heartbeat(self) -> None:
        """Sends a heartbeat. A role without a heartbeat within its deadline counts as hung."""

    def sleep(self, seconds: float) -> None:
        """Sleeps while the role has no work."""

    def send(self, message: RoleMessage) -> None:
        """Sends a message to the supervisor; for rare and small messages."""


class ControlBlock:
    """Shared memory of roles and supervisor: heartbeats int64 [R], the stop flag, the requested snapshot, and what user
    code each role is running, uint8 [R, N] (see `activity`)."""

    def __init__(self, roles: int, context: Any) -> None:
        # One cache line per role.
        layouts = {"heartbeats": Layout((roles, 8), "int64"), "stopping": Layout((1,), "bool")}
        layouts["snapshot"] = Layout((1,), "int64")
        layouts["activity"] = Layout((roles, activity.SIZE_OF_ROLE), "uint8")
        self._arrays = SharedArrays(layouts, context)

    @property
    def heartbeats(self) -> np.ndarray:
        return self._arrays["heartbeats"][:, 0]

    @property
    def stopping(self) -> np.ndarray:
        return self._arrays["stopping"]

    @property
    def requested_snapshot(self) -> np.ndarray:
        return self._arrays["snapshot"]

    def activity(self, number: int) -> memoryview:
        """The memory in which role `number` records the user code that it is running."""
        return memoryview(self._arrays["activity"][number])


@dataclass(frozen=True)
class RoleIdentity:
    """The role of a process, and its number of earlier starts; see `supervision.plans.RolePlan`."""

    name: str
    number: int
    restart_count: int
    niceness: int
    peers: Peers


class LocalControl:
    """See `Control`: for a process on this machine."""

    def __init__(self, pipe: Connection, control_block: ControlBlock, who: RoleIdentity) -> None:
        self._pipe, self._heartbeats, self._stopping, self._snapshot = (
            pipe,
            control_block.heartbeats,
            control_block.stopping,
            control_block.requested_snapshot,
        )
        self._number, self.restart_count, self.peers = who.number, who.restart_count, who.peers
        self._send_lock = threading.Lock()

    @property
    def stopping(self) -> bool:
        return bool(self._stopping[0])

    @property
    def requested_snapshot(self) -> int:
        return int(self._snapshot[0])

    def heartbeat(self) -> None:
        self._heartbeats[self._number] += 1

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def send(self, message: RoleMessage) -> None:
        packed = message.to_bytes()
        with self._send_lock:  # a role may have threads
            write_message(self._pipe.fileno(), packed)

    def send_failure(self, sentence: str, where: str, is_final: bool) -> None:
        """Sends the role's failure."""
        self.send(Failed(sentence, where, is_final))


def run_role(
    pipe: Connection,
    control_block: ControlBlock,
    who: RoleIdentity,
    role: Callable[..., None],
    arguments: tuple[Any, ...],
    edges: Mapping[str, Any],
) -> None:
    """Entry point of a role's process: calls `role(control, *arguments, **edges)` until it returns."""
    leave_signals_to_parent()
    users_torch.take_from_imports()
    os.environ.setdefault(*GLOO_ON_LOOPBACK)
    os.nice(who.niceness)
    activity.share(control_block.activity(who.number))
    control = LocalControl(pipe, control_block, who)
    report_hang_to(control.send_failure)
    control.send(Started(trace=enable_stack_dump(), pid=os.getpid()))
    try:
        role(control, *arguments, **edges)
    except Exception as error:
        control.send(failure_of(error))
        raise SystemExit(1) from None
    control.send(Ended())
