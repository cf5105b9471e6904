"""What a driver calls of supervised roles, and what a supervisor calls of their processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from veldt.runtime.activity import Doing
from veldt.runtime.role_messages import Failed, Received


class RunningRoles(Protocol):
    """The supervision of roles, as a driver uses it: `decisions.Supervision`, or `inline.InlineSupervisor`."""

    @property
    def is_inline(self) -> bool:
        """Whether roles run in this process: then they work only while the driver polls them."""

    @property
    def all_ended(self) -> bool: ...

    def start(self, while_working: Callable[[], None] = ...) -> None:
        """Starts the roles. One of this process calls `while_working` before each step of envs and after each update:
        its polls may be long."""

    def poll(self, patience_s: float) -> list[Received]: ...

    def request_snapshot(self) -> int: ...

    def snapshot_done(self) -> None: ...

    def flush(self, *, writing: bool = False, weights: bool = False) -> list[Received]:
        """Returns at once what roles in this process would send later: their metrics, with `writing` also records of
        segments, when these are on disk, and with `weights` their weights. Other roles send metrics by themselves."""

    def has_ended(self, role: int) -> bool: ...

    def works(self, role: int, silent_s: float) -> bool:
        """Whether this role has started, and has sent a heartbeat within `silent_s` seconds.

        A role with slow env steps may be silent for longer: for twice its longest silence so far.
        """

    def stop(self, patience_s: float) -> list[Received]: ...

    def kill(self) -> None: ...


class ProcessHandle(Protocol):
    """One incarnation of a role: its process, from one start to its end."""

    @property
    def waits(self) -> bool:
        """Whether it still waits for a place to run: then it cannot be hung."""

    @property
    def heartbeats(self) -> int:
        """Number of heartbeats of the role, over all incarnations."""

    def received(self) -> list[bytes]:
        """Returns the packed messages received since the last call."""

    def alive(self) -> bool: ...

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it; False where that is not known."""

    def cause_of_death(self) -> str:
        """Describes the cause, as the end of a sentence."""

    def user_code(self) -> Doing | None:
        """Returns which user code the process ran when it ended; None if it ran none, or that is not known."""

    def failure(self) -> Failed | None:
        """Returns the failure of user code that ended the process, if that is known to be the cause."""

    def stack(self, trace: int) -> str:
        """Returns the role's stack within about a second, "" if unknown; `trace` is from its "started" message."""

    def kill(self) -> None:
        """Kills it at once."""
