"""What a process does whose fork server is killed or stopped: a script, since the tests' own server is needed later.

Called with the signal for the server, and when it comes: "at import" while it loads modules, "at work" when it has
started a child. The rest is of servers that a module ends whenever they load it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing import util

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


def at_work(number: int) -> None:
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


def forked(number: int) -> None:
    context = forkserver([])
    Child(context, "before", answers).kill()
    if os.fork() == 0:
        child = Child(forkserver([]), "a child", answers)
        assert answered(child)
        print("the forked process", flush=True)
        child.kill()
        util._exit_function()
        server.end_servers()
        os._exit(0)
    os.wait()
    assert answered(Child(forkserver([]), "a child", answers)), "from its old server, with its old folder"
    print("the process itself")


def left(number: int) -> None:
    Child(forkserver([]), "before", answers).kill()
    parent = os.getpid()
    if os.fork() != 0:
        return
    while os.getppid() == parent:
        time.sleep(0.01)
    child = Child(forkserver([]), "a child", answers)
    print(answered(child))
    child.kill()


def in_pool(_: int) -> bool:
    child = Child(forkserver([]), "a child", answers)
    return answered(child)


def pool(number: int) -> None:
    with multiprocessing.get_context("fork").Pool(1) as workers:
        print(workers.map(in_pool, [0])[0])


def two_threads(number: int) -> None:
    def start() -> None:
        for _ in range(5):
            Child(forkserver([]), "a child", answers).kill()
        print("done")

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "PYTHONSAFEPATH" not in os.environ and sys.modules["__main__"].__file__ == __file__


def waited_for(number: int) -> None:
    """As the handler of SIGCHLD of some programs does."""
    forkserver([])
    pid = server.server_pid() or 0
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(lost())
    print(answered(Child(forkserver([]), "a child", answers)))


def no_more(number: int) -> None:
    try:
        Child(forkserver(["cannot_fork"]), "learner 0", answers)
    except VeldtError as error:
        print(error)


def always(number: int) -> None:
    os.environ["SERVER_SIGNAL"], os.environ["ALWAYS"] = str(int(number)), "1"
    try:
        Child(forkserver(["imported_slowly"]), "learner 0", answers)
    except VeldtError as error:
        print(error)


if __name__ == "__main__":
    cases = [at_work, at_import, always, forked, left, two_threads, pool, waited_for, no_more]
    {case.__name__.replace("_", " "): case for case in cases}[sys.argv[1]](int(sys.argv[2]))
