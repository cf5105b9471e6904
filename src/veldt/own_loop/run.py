"""Runs a program of the user's own functions: makes the graph of its roles and pieces, and supervises the processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from veldt.errors import RoleError, UsageError
from veldt.exchange.graph import Edge, Graph, Role
from veldt.own_loop.piece import STARTUP_TIMEOUT_S, Piece, Users, wired
from veldt.own_loop.processes import Processes
from veldt.own_loop.program import Finished, Log, Program, print_values
from veldt.own_loop.role_process import OwnPlan, run_own_function
from veldt.runtime.shared import Layout
from veldt.runtime.supervision.interfaces import RunningRoles
from veldt.setting_metadata import check_type
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.driver.outcome import stop_on_signals
from veldt.user_code import by_value
from veldt.user_code.imports import refuse_training_in_import

_POLL_S = 0.1


def run_roles(
    roles: Mapping[str, Processes],
    pieces: Mapping[str, Piece] | None = None,
    *,
    cluster: str | None = None,
    seconds: float | None = None,
    stop_s: float = 5.0,
    log: Log | None = None,
) -> Finished:
    """Runs your own functions as processes, connected by pieces, until all have returned or one calls `stop_all`.

    When it returns or raises, no process and no shared memory is left. Functions, also those of the script itself, are
    sent to the processes by cloudpickle.

    Args:
        roles: the functions and their numbers of processes, by the name of each role.
        pieces: `GradientServer`, `ModelServer`, `DistributedBuffer`, by the name of the parameter that takes it.
        cluster: where the processes run: "local" starts Ray on this machine, "HOST:PORT" joins a Ray cluster; by
            default they run on this machine without Ray.
        seconds: time after which all are asked to end.
        stop_s: seconds from then on, or from `stop_all` or Ctrl-C, for the functions to return. The process of one that
            has not is killed; that is logged, and `Finished.killed` names it.
        log: called with the name of a process and the values of its `process.log`; by default they are printed.

    Raises:
        UsageError: roles and pieces do not fit each other; nothing was started.
        RoleError: a process died or hung, or a function raised, and may not be restarted; or that happened after all
            were asked to end. The message names the process and, for an exception, file and line; `details` (also a
            note of the exception) is the traceback.
        KeyboardInterrupt: on Ctrl-C or SIGTERM, after all have ended; its argument is the `Finished`. What a function
            raises meanwhile is only logged.
    """
    refuse_training_in_import()
    check_type("cluster", cluster, str | None)
    check_type("seconds", seconds, float | None)
    check_type("stop_s", stop_s, float)
    if not stop_s >= 0:
        raise UsageError(f"stop_s of run_roles is {stop_s}: it must be 0 or more")
    graph = _graph(roles, pieces or {})
    began = time.monotonic()
    with (
        _runtime(cluster) as start,
        stop_on_signals("\nstopping (again, after a second: at once)\n") as interrupt,
    ):
        running, _ = start(graph)
        program = Program(running, roles, log or print_values)
        try:
            running.start()
            while not (reason := program.reason()) and not interrupt.is_set():
                if seconds is not None and time.monotonic() > began + seconds:
                    reason = "seconds"
                    break
                program.handle(running.poll(_POLL_S))
            program.handle(running.stop(stop_s))
            program.check_end(stop_s, is_interrupted=interrupt.is_set())
        except RoleError as error:
            if error.details:
                error.add_note(error.details)
            raise
        finally:
            running.kill()
    if interrupt.is_set():
        reason = "interrupted"
    why = program.why if reason == "stopped" else ""  # a role may call stop_all while all are being stopped
    finished = Finished(reason, why, time.monotonic() - began, program.returned, tuple(program.killed))
    if interrupt.is_set():
        raise KeyboardInterrupt(finished)
    return finished


def _graph(roles: Mapping[str, Processes], pieces: Mapping[str, Piece]) -> Graph:
    """Returns the graph: the user's roles first, then those of the pieces."""
    if not roles:
        raise UsageError(
            "run_roles got no roles: give at least one, such as {'learner': veldt.Processes(learn)}"
        )
    _check_kinds(roles, pieces)
    taken = {name: processes.pieces(pieces) for name, processes in roles.items()}
    users = {
        piece: Users(piece, {name: roles[name].count for name in roles if piece in taken[name]})
        for piece in pieces
    }
    if unused := [name for name, of_piece in users.items() if not of_piece.counts]:
        raise UsageError(
            f"no function takes the piece '{unused[0]}': give one a parameter of that name, or leave the piece out"
        )
    edges: dict[str, Edge] = {}
    own_roles: list[Role] = []
    layouts: dict[str, Mapping[str, Layout]] = {}
    for name, piece in pieces.items():
        parts = piece.parts(users[name])
        edges |= parts.edges
        own_roles += parts.roles
        layouts[name] = parts.layouts
    if clash := sorted({role.name for role in own_roles} & roles.keys()):
        raise UsageError(f"a role is called '{clash[0]}', as the process of a piece is: take another name")
    theirs = [
        _role(name, processes, {piece: pieces[piece] for piece in taken[name]}, users, layouts)
        for name, processes in roles.items()
    ]
    return Graph((*theirs, *own_roles), edges).with_given_limit()


def _check_kinds(roles: Mapping[str, Any], pieces: Mapping[str, Any]) -> None:
    """Raises UsageError for a role or a piece that is something else, such as a function or a class."""
    for name, role in roles.items():
        if not isinstance(role, Processes):
            raise UsageError(
                f"the role '{name}' is {role!r}: give veldt.Processes(function), with the function that its processes "
                "run"
            )
    for name, piece in pieces.items():
        if isinstance(piece, type) or not callable(getattr(piece, "parts", None)):
            raise UsageError(
                f"the piece '{name}' is {piece!r}: give an object of veldt.GradientServer, veldt.ModelServer or "
                "veldt.DistributedBuffer"
            )


def _role(
    name: str,
    processes: Processes,
    pieces: Mapping[str, Piece],
    users: Mapping[str, Users],
    layouts: Mapping[str, Mapping[str, Layout]],
) -> Role:
    try:
        code = by_value.dumps((processes.function, dict(processes.kwargs), dict(pieces)), processes.function)
    except Exception as error:
        raise UsageError(
            f"the function, kwargs or pieces of the role '{name}' cannot be sent to a process ({error}): make what "
            "cannot be copied, such as an env, inside the function"
        ) from error
    indices = range(processes.count)
    of_role = tuple((users[piece], layouts[piece]) for piece in pieces)
    return Role(
        name,
        "a function of the program",
        run_own_function,
        [OwnPlan(code, name, index, processes.count, of_role, processes.threads) for index in indices],
        [
            {
                at: edge
                for key, piece in pieces.items()
                for at, edge in wired(piece, users[key], name, index).items()
            }
            for index in indices
        ],
        processes.max_restarts,
        processes.deadline_s,
        startup_timeout_s=max(processes.deadline_s, STARTUP_TIMEOUT_S),
        gpus=processes.gpus,
    )


@contextlib.contextmanager
def _runtime(cluster: str | None) -> Iterator[Callable[[Graph], tuple[RunningRoles, dict[str, Any]]]]:
    """Yields what runs a graph: on this machine, or on a cluster, connected until the block ends."""
    if cluster is None:
        yield start_local
        return
    from veldt.runtime.on_ray.cluster import connected

    with connected(cluster) as joined:
        from veldt.systems.driver.ray_runtime import start_on_ray

        yield partial(start_on_ray, joined)
