"""Starts a Ray cluster for one run on this machine, in a process that ends when its standard input closes.

    python -m veldt.runtime.on_ray.head CPUS GPUS STORE_BYTES DIRECTORY

It writes the address to its standard output, and removes the directory of Ray's temporary files at its end. It has its
own session, so signals from a terminal or a job scheduler to the run's processes do not reach it: the run needs the
cluster for its last checkpoint. When the run is killed, the pipe closes and the cluster ends at once: its processes are
killed, since nothing in them is needed any more, and Ray's own way to end takes seconds. (If this process
is killed instead, the kernel ends the processes that it started.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time

from veldt.runtime.descendants import adopt_orphans, end_descendants
from veldt.runtime.on_ray.settings import WORKER_NICENESS, on_loopback, quiet
from veldt.runtime.processes import GLOO_ON_LOOPBACK

# The nice value of the session's autogroup on Linux: a third of the usual weight.
_SESSION_NICENESS = 5
_TRIES = 20  # Linux allows one change per 100 ms in the whole system


def _stand_back() -> None:
    """Gives the supervising process priority over this session, in which all roles work.

    Linux divides the cores among sessions first. With equal weight, the supervisor was observed to wait for seconds: it
    noticed late that the target return was reached, and a different policy was saved at the end.
    """
    if os.getsid(0) != os.getpid():
        return  # the session belongs to another process
    with contextlib.suppress(OSError):
        for _ in range(_TRIES):
            with contextlib.suppress(BlockingIOError), open("/proc/self/autogroup", "w") as group:
                group.write(str(_SESSION_NICENESS))
                group.flush()
                return
            time.sleep(0.1)


def main(cpus: int, gpus: int, store_bytes: int, directory: str) -> None:
    address_output = os.dup(1)
    os.dup2(2, 1)  # Ray's own output goes to standard error
    adopt_orphans()
    # From the beginning: the run may be killed while Ray is being started.
    closed = threading.Thread(
        target=_end_with_the_run, args=(directory,), daemon=True, name="end-with-the-run"
    )
    closed.start()
    try:
        quiet()
        os.environ.setdefault(*WORKER_NICENESS)
        os.environ.setdefault(*GLOO_ON_LOOPBACK)
        import ray

        with on_loopback():
            context = ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                object_store_memory=store_bytes,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address="127.0.0.1",
                _temp_dir=directory,
            )
        _stand_back()  # after the start of Ray, which it would slow down
        os.write(address_output, f"{context.address_info['gcs_address']}\n".encode())
        os.close(address_output)
        closed.join()
    finally:
        _end(directory)


def _end_with_the_run(directory: str) -> None:
    sys.stdin.buffer.read()
    _end(directory)
    os._exit(0)  # what Ray does at exit would wait for the processes that were killed


def _end(directory: str) -> None:
    end_descendants()
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    cpus, gpus, store_bytes = map(int, sys.argv[1:4])
    main(cpus, gpus, store_bytes, sys.argv[4])
