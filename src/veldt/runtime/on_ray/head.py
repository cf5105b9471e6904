"""A Ray for one run on this machine, in a process of its own: it ends when its standard input does.

    python -m veldt.runtime.on_ray.head CPUS GPUS STORE_BYTES

It says the address on its standard output. In a session of its own, it is not reached by what a terminal or a job
scheduler sends to all processes of the run, which needs it for its last checkpoint; and when the run is killed, the
pipe closes, and everything here is gone. (Should this process be killed instead, the kernel ends what it started.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile

from veldt.runtime.on_ray.settings import on_loopback, quiet

_LONGEST = 16  # letters of a directory for temporary files


def main(cpus: int, gpus: int, store_bytes: int) -> None:
    said = os.dup(1)
    os.dup2(2, 1)  # whatever Ray prints
    # Short, since the names of sockets are made of it.
    usual = tempfile.gettempdir()
    directory = tempfile.mkdtemp(prefix="veldt-ray-", dir=usual if len(usual) <= _LONGEST else "/tmp")
    try:
        quiet()
        os.environ.setdefault(
            "RAY_worker_niceness", "0"
        )  # by itself, Ray lets everything else on a machine go before
        # Learners that meet by Gloo listen here only: nobody else has business with them.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
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
        os.write(said, f"{context.address_info['gcs_address']}\n".encode())
        os.close(said)
        sys.stdin.buffer.read()
        with contextlib.suppress(Exception):
            ray.shutdown()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
