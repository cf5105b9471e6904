"""What a process does whose fork server is killed or stopped: a script, since the tests' own server is needed later.

Called with the signal for the server, and when it comes: "at import" while it loads modules, "at work" when it has
started a child. The rest is of servers that a module ends whenever they load it.
"""

from __future__ import annotations

import os
import signal
import sys

from children import answers

from veldt.errors import VeldtError
from veldt.runtime import process_state
from veldt.runtime.fork_server import server
from veldt.runtime.processes import Child, forkserver

process_state.STOPPED_S = 0.5


def answered(child: Child) -> bool:
    child.pipe.send_bytes(b"a")
    return child.receive(20) == b"a" and child.alive()


def lost() -> str:
    found: list[str] = []
    while not found:
        found = server.lost_servers()
    (sentence,) = found
    return sentence


def at_work(number: signal.Signals) -> None:
    context = forkserver([])
    first = Child(context, "first", answers)
    os.kill(server.server_pid() or 0, number)
    print(lost())
    assert answered(first), "a child outlives its server"
    second = Child(context, "second", answers)
    assert answered(second), "from a new server"
    for child in (first, second):
        os.kill(child._state.pid, signal.SIGKILL)
        assert child.receive(20) is None and not child.alive() and child.was_killed()
        print(child.cause_of_death())
        child.kill()


def at_import(number: int) -> None:
    """`imported_slowly` sends the signal to the server that loads it, the first time."""
    os.environ["SERVER_SIGNAL"] = str(int(number))
    child = Child(forkserver(["imported_slowly"]), "a child", answers)
    assert answered(child)
    print(lost())
    child.kill()


def always(number: int) -> None:
    os.environ["SERVER_SIGNAL"], os.environ["ALWAYS"] = str(int(number)), "1"
    try:
        Child(forkserver(["imported_slowly"]), "learner 0", answers)
    except VeldtError as error:
        print(error)


if __name__ == "__main__":
    {"at work": at_work, "at import": at_import, "always": always}[sys.argv[1]](
        signal.Signals(int(sys.argv[2]))
    )
