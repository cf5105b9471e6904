"""What a function of the user's gets of its process, and the entry function that calls it."""

from __future__ import annotations

import contextlib
import os
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from veldt.errors import RoleError, VeldtError, described, traceback_of
from veldt.exchange.graph import role_name
from veldt.own_loop.messages import Logged, Returned, StopAll
from veldt.own_loop.piece import Piece, Users, edges_of
from veldt.own_loop.values import packed
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.user_code import by_value

_PAUSE_S = 0.002  # between two attempts of a wait
_SLICE_S = 0.1  # of a sleep, after which the process gives a sign of life
# Where code is that is not the user's own.
_LIBRARIES = (
    os.path.dirname(os.path.dirname(__file__)),
    *{sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")},
)
T = TypeVar("T")


class RoleProcess:
    """The process in which a function of your own runs, its first argument.

    `role` is the name of its role, `index` its number among the `count` processes of that role, from 0 on, and
    `restart_count` how often it was restarted.
    """

    def __init__(self, control: Control, role: str, index: int, count: int) -> None:
        self._control = control
        self.role, self.index, self.count = role, index, count
        self.restart_count = control.restart_count
        self._at_end: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """The role's name, with the index where it has several processes."""
        return role_name(self.role, self.index, self.count)

    @property
    def running(self) -> bool:
        """Whether to go on; False when all processes are to end. To be asked in every loop: it also tells the main
        process that this one is alive, which it must do within `Processes.deadline_s` seconds."""
        self.heartbeat()
        return not self._control.stopping

    def heartbeat(self) -> None:
        """Tells the main process that this one is alive; `running` and the pieces do so, too."""
        self._control.heartbeat()

    def sleep(self, seconds: float) -> None:
        """Sleeps so long, or until all processes are asked to end; gives signs of life meanwhile."""
        end = time.monotonic() + seconds
        while self.running and (rest := end - time.monotonic()) > 0:
            self._control.sleep(min(rest, _SLICE_S))

    def log(self, **values: Any) -> None:
        """Sends values to `run_roles`, which shows them; of the same types as what a function returns."""
        self._control.send(Logged(packed(values, f"what the {self.name} logged")))

    def stop_all(self, why: str = "") -> None:
        """Asks all processes to end, this one included; `why` is shown and returned by `run_roles`."""
        self._control.send(StopAll(why))

    def wait_for(
        self, attempt: Callable[[], T | None], deadline_s: float, overdue: Callable[[], str]
    ) -> T | None:
        """Calls `attempt`, which may block for up to 0.25 s, until it returns something; returns that.

        None when all processes are asked to end meanwhile.

        Args:
            deadline_s: seconds to wait at most.
            overdue: returns the sentence of the VeldtError that is raised after the deadline.
        """
        self.heartbeat()
        waited_s, began = 0.0, time.monotonic()
        while (found := attempt()) is None:
            if not self.running:
                return None
            if waited_s > deadline_s:
                raise VeldtError(overdue())
            self._control.sleep(_PAUSE_S)
            # A pause of the whole program (Ctrl-Z, a suspended laptop) is no waiting.
            now = time.monotonic()
            waited_s, began = waited_s + min(now - began, 1.0), now
        return found

    def at_end(self, call: Callable[[], None]) -> None:
        """Calls `call` when the function has returned."""
        self._at_end.append(call)

    def finish(self, value: Any) -> None:
        """Sends what the function has returned; called once, after it."""
        for call in self._at_end:
            call()
        self._control.send(Returned(packed(value, f"what the {self.name} returned")))


@dataclass(frozen=True)
class OwnPlan:
    """Process `index` of a role. `code` is the function, its keyword arguments and its pieces, by cloudpickle: they
    come from the program itself, and only go to its own processes. `pieces` are the users and the layouts of each."""

    code: bytes
    role: str
    index: int
    count: int
    pieces: tuple[tuple[Users, Mapping[str, Layout]], ...]
    threads: int


@flush_denormals()
def run_own_function(control: Control, plan: OwnPlan, **edges: Any) -> None:
    """Entry point of the user's roles."""
    torch.set_num_threads(plan.threads)
    process = RoleProcess(control, plan.role, plan.index, plan.count)
    with own_errors():
        function, kwargs, pieces = by_value.loads(plan.code)
        control.heartbeat()
        opened = {
            users.name: _open(pieces[users.name], users, layouts, process, edges)
            for users, layouts in plan.pieces
        }
        process.finish(function(process, **opened, **kwargs))


def _open(
    piece: Piece, users: Users, layouts: Mapping[str, Layout], process: RoleProcess, edges: Mapping[str, Any]
) -> Any:
    return piece.open(users, process, edges_of(users.name, edges), layouts)


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Converts an exception of the user's code to one sentence with the line that raised it, and its traceback."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, RoleError):
            raise
        is_final = isinstance(error, VeldtError | MemoryError)
        what = str(error) if isinstance(error, VeldtError) else described(error)
        details = traceback_of(error)
        raise RoleError(f"{what}{_place(error)}", details=details, is_final=is_final) from error


def _place(error: BaseException) -> str:
    """Returns where the user's own code raised the error, or called what did, as the end of a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" ({own[-1].filename}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
