"""A role's own side: it beats while it works, says what happened, and looks whether it is to stop."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from veldt.errors import PeerLostError, VeldtError
from veldt.runtime.inbox import write_message
from veldt.runtime.messages import pack
from veldt.runtime.processes import GLOO_ON_LOOPBACK, leave_signals_to_parent, name_process
from veldt.runtime.shared import Layout, SharedArrays
from veldt.runtime.stack_dump import enable_stack_dump
from veldt.runtime.watchdog import last_words_to

# What veldt explains itself, and what does not fit into memory, would be so again; anything else may be an accident.
_FINAL = (VeldtError, MemoryError)


def failure_values(error: BaseException) -> dict[str, Any]:
    """What a role says of the error that ends it, while that is handled."""
    details = getattr(error, "details", "") or traceback.format_exc()
    name = "" if isinstance(error, VeldtError) else f"{type(error).__name__}: "
    return {
        "error": f"{name}{error}",
        "details": details,
        "is_final": isinstance(error, _FINAL),
        "is_echo": isinstance(error, PeerLostError),  # of another's failure
    }


@dataclass(frozen=True)
class Peers:
    """A role is number `index` of the `count` on its machine that are like it, itself among them."""

    index: int
    count: int

    @classmethod
    def among(cls, number: int, numbers: Sequence[int]) -> Peers:
        """Of the role of this number among those of `numbers`."""
        return cls(numbers.index(number), len(numbers))


class Control(Protocol):
    """What connects a role to its supervisor, wherever it runs."""

    restart_count: int  # how often the role was started before
    peers: Peers

    @property
    def stopping(self) -> bool:
        """Whether the role is to end; to be looked at wherever it may wait."""

    @property
    def requested_snapshot(self) -> int:
        """Number of the snapshot that is wanted, of which each role with state is to say its part once; 0 for none."""

    def heartbeat(self) -> None:
        """Says that it is alive. A role that has not beaten within its deadline counts as hung."""

    def sleep(self, seconds: float) -> None:
        """Waits, for want of work."""

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Sends a message (JSON values, and arrays) to the supervisor; rarely, and small."""


class ControlBlock:
    """What roles and their supervisor share: beats int64 [R], whether to stop, and which snapshot is wanted."""

    def __init__(self, roles: int, context: Any) -> None:
        # A line of the cache for each role.
        layouts = {"beats": Layout((roles, 8), "int64"), "stopping": Layout((1,), "bool")}
        layouts["snapshot"] = Layout((1,), "int64")
        self._arrays = SharedArrays(layouts, context)

    @property
    def heartbeats(self) -> np.ndarray:
        return self._arrays["beats"][:, 0]

    @property
    def stopping(self) -> np.ndarray:
        return self._arrays["stopping"]

    @property
    def requested_snapshot(self) -> np.ndarray:
        return self._arrays["snapshot"]


@dataclass(frozen=True)
class RoleIdentity:
    """Which role a process is, and how often it was started before; see `supervisor.RolePlan`."""

    name: str
    number: int
    restart_count: int
    niceness: int
    peers: Peers


class LocalControl:
    """See `Control`: of a process on this machine."""

    def __init__(self, pipe: Connection, board: ControlBlock, who: RoleIdentity) -> None:
        self._pipe, self._beats, self._stopping, self._snapshot = (
            pipe,
            board.heartbeats,
            board.stopping,
            board.requested_snapshot,
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
        self._beats[self._number] += 1

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        message = pack({"kind": kind, **values}, arrays)
        with self._send_lock:  # a role may have threads
            write_message(self._pipe.fileno(), message)

    def send_failure(self, sentence: str, where: str, is_final: bool) -> None:
        """Says it as the role's failure."""
        self.send("failed", error=sentence, details=where, is_final=is_final)


def run_role(
    pipe: Connection,
    board: ControlBlock,
    who: RoleIdentity,
    role: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """Entry point of a role's process: `role(control, *arguments)` until it returns."""
    leave_signals_to_parent()
    name_process(who.name)
    os.environ.setdefault(*GLOO_ON_LOOPBACK)
    os.nice(who.niceness)
    control = LocalControl(pipe, board, who)
    last_words_to(control.send_failure)
    control.send("started", trace=enable_stack_dump(), pid=os.getpid())
    try:
        role(control, *arguments)
    except Exception as error:
        control.send("failed", **failure_values(error))
        raise SystemExit(1) from None
    control.send("ended")
