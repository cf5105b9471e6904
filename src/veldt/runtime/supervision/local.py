"""The supervisor of roles that are processes of this machine; its decisions are in `decisions`."""

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
from veldt.runtime.supervision.decisions import SupervisedRole, Supervision
from veldt.runtime.supervision.plans import RolePlan


class Supervisor(Supervision):
    """See `Supervision`."""

    def __init__(self, context: ForkServerContext, plans: Sequence[RolePlan]) -> None:
        super().__init__(plans)
        self._context, self._control_block = context, ControlBlock(len(plans), context)

    def start_incarnation(self, role: SupervisedRole) -> LocalProcessHandle:
        plan = role.plan
        self._control_block.activity(role.number)[:] = bytes(activity.SIZE_OF_ROLE)
        peers = Peers.among(role.number, self.alike(role.number))
        who = RoleIdentity(plan.name, role.number, role.restart_count, plan.niceness, peers)
        arguments = (self._control_block, who, plan.role, plan.arguments, plan.edges)
        return LocalProcessHandle(
            Child(self._context, plan.name, run_role, *arguments), self._control_block, role.number
        )

    def wait(self, patience_s: float) -> None:
        handles = [role.process for role in self.roles if not role.has_ended]
        pipes = [handle.child.pipe for handle in handles if isinstance(handle, LocalProcessHandle)]
        if pipes:
            wait(pipes, patience_s)

    def lost_servers(self) -> list[str]:
        return lost_servers()

    def broadcast(self, *, stopping: bool, snapshot: int) -> None:
        self._control_block.requested_snapshot[0] = snapshot
        self._control_block.stopping[0] = stopping


class LocalProcessHandle:
    """See `interfaces.ProcessHandle`."""

    def __init__(self, child: Child, control_block: ControlBlock, number: int) -> None:
        self.child, self._control_block, self._number = child, control_block, number
        self._inbox = Inbox(child.pipe.fileno())

    @property
    def waits(self) -> bool:
        return False

    @property
    def heartbeats(self) -> int:
        return int(self._control_block.heartbeats[self._number])

    def received(self) -> list[bytes]:
        return self._inbox.messages()

    def alive(self) -> bool:
        return self.child.alive()

    @property
    def is_stopped(self) -> bool:
        return self.child.is_stopped

    def cause_of_death(self) -> str:
        doing = self._doing()
        return self.child.cause_of_death(doing.ran if doing else "")

    def user_code(self) -> activity.Doing | None:
        return None if self.alive() else self._doing()

    def failure(self) -> Failed | None:
        doing = self._doing()
        if doing is None or self.child.was_killed():
            return None
        how = f"{doing.what}: the process {self.child.cause_of_death()}"
        return Failed(how, "", doing.is_final, moment=doing.moment)

    def stack(self, trace: int) -> str:
        return self.child.stack(trace)

    def kill(self) -> None:
        self.child.kill()

    def _doing(self) -> activity.Doing | None:
        return activity.last(self._control_block.activity(self._number))
