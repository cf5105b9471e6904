"""The supervisor of roles that are processes of this machine; its decisions are in `supervision`."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext

from veldt.runtime import activity
from veldt.runtime.fork_server.server import lost_servers
from veldt.runtime.messages import Inbox
from veldt.runtime.processes import Child
from veldt.runtime.role_messages import Failed
from veldt.runtime.roles import ControlBlock, Peers, RoleIdentity, run_role
from veldt.runtime.supervision import RolePlan, SupervisedRole, Supervision


class Supervisor(Supervision):
    """See `Supervision`."""

    def __init__(self, context: ForkServerContext, plans: Sequence[RolePlan]) -> None:
        super().__init__(plans)
        self._context, self._board = context, ControlBlock(len(plans), context)

    def start_incarnation(self, role: SupervisedRole) -> LocalProcessHandle:
        plan = role.plan
        self._board.activity(role.number)[:] = bytes(activity.SIZE_OF_ROLE)
        peers = Peers.among(role.number, self.alike(role.number))
        who = RoleIdentity(plan.name, role.number, role.restart_count, plan.niceness, peers)
        arguments = (self._board, who, plan.role, plan.arguments, plan.edges)
        return LocalProcessHandle(
            Child(self._context, plan.name, run_role, *arguments), self._board, role.number
        )

    def wait(self, patience_s: float) -> None:
        handles = [role.process for role in self.roles if not role.has_ended]
        pipes = [handle.child.pipe for handle in handles if isinstance(handle, LocalProcessHandle)]
        if pipes:
            wait(pipes, patience_s)

    def lost_servers(self) -> list[str]:
        return lost_servers()

    def broadcast(self, *, stopping: bool, snapshot: int) -> None:
        self._board.requested_snapshot[0] = snapshot
        self._board.stopping[0] = stopping


class LocalProcessHandle:
    """See `supervision.ProcessHandle`."""

    def __init__(self, child: Child, board: ControlBlock, number: int) -> None:
        self.child, self._board, self._number = child, board, number
        self._inbox = Inbox(child.pipe.fileno())

    @property
    def waits(self) -> bool:
        return False

    @property
    def heartbeats(self) -> int:
        return int(self._board.heartbeats[self._number])

    def received(self) -> list[bytes]:
        return self._inbox.messages()

    def alive(self) -> bool:
        return self.child.alive()

    @property
    def is_stopped(self) -> bool:
        return self.child.is_stopped

    def cause_of_death(self) -> str:
        return self.child.cause_of_death()

    def failure(self) -> Failed | None:
        doing = activity.last(self._board.activity(self._number))
        if doing is None or self.child.was_killed():
            return None
        return Failed(f"{doing.what}: the process {self.cause_of_death()}", "", doing.is_final)

    def stack(self, trace: int) -> str:
        return self.child.stack(trace)

    def kill(self) -> None:
        self.child.kill()
