"""A Ray for one run on this machine, in a process of its own: it ends when its standard input does.

    python -m veldt.runtime.on_ray.head CPUS GPUS STORE_BYTES DIRECTORY

It says the address on its standard output, and removes the directory of Ray's temporary files at its end. In a session
of its own, it is not reached by what a terminal or a job scheduler sends to all processes of the run, which needs it
for its last checkpoint; and when the run is killed, the pipe closes, and everything here is gone. (Should this process
be killed instead, the kernel ends what it started.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time

from veldt.runtime.on_ray.settings import WORKER_NICENESS, on_loopback, quiet
from veldt.runtime.processes import GLOO_ON_LOOPBACK

# What Linux calls nice of a whole session: a third of the others' weight.
_SESSION_NICENESS = 5
_TRIES = 20  # in all of Linux, one in 100 ms may change it


def _stand_back() -> None:
    """Lets the process that supervises the run go before all that works in it, which is this session.

    Linux shares cores out among sessions first. As one of two equals, that process was seen to wait for seconds: it
    heard late of a score that was reached, and the policy that was kept in the end was another.
    """
    if os.getsid(0) != os.getpid():
        return  # somebody else's session
    with contextlib.suppress(OSError):
        for _ in range(_TRIES):
            with contextlib.suppress(BlockingIOError), open("/proc/self/autogroup", "w") as group:
                group.write(str(_SESSION_NICENESS))
                group.flush()
                return
            time.sleep(0.1)


def main(cpus: int, gpus: int, store_bytes: int, directory: str) -> None:
    said = os.dup(1)
    os.dup2(2, 1)  # whatever Ray prints
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
        _stand_back()  # now that Ray is there: it would start more slowly
        os.write(said, f"{context.address_info['gcs_address']}\n".encode())
        os.close(said)
        sys.stdin.buffer.read()
        with contextlib.suppress(Exception):
            ray.shutdown()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    cpus, gpus, store_bytes = map(int, sys.argv[1:4])
    main(cpus, gpus, store_bytes, sys.argv[4])
