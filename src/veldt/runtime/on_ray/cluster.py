"""The Ray cluster in which a run's roles work: started for the run on this machine, or joined by its address."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from veldt.errors import UsageError, VeldtError
from veldt.runtime.descendants import end_below
from veldt.runtime.fork_server.socket_folder import parent_of_sockets
from veldt.runtime.on_ray.settings import on_loopback, quiet, token
from veldt.runtime.orphans import mark_folder, remove_orphaned_folders

if TYPE_CHECKING:
    from veldt.runtime.on_ray.hosts import Hosts

LOCAL = "local"
_PREFIX = "veldt-ray-"
_START_S = 60.0
_STOP_S = 2.0  # for the local cluster, whose work is over, until its processes are killed
_PORT_S, _JOIN_S = 5.0, 20.0
_LONGEST = 16  # maximum length of the temporary directory's path, which is part of socket names
_NO_RAY = "--cluster needs Ray, which is not installed here: pip install 'veldt[cluster]'"


class Cluster:
    """A Ray cluster; this process is connected to it after `ready` or `join`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._head: subprocess.Popen[bytes] | None = None
        self._directory = ""
        self._has_joined = False
        self._hosts: Hosts | None = None
        self._within = contextlib.ExitStack()

    def ready(self, *, cpus: int, gpus: int, store_bytes: int) -> None:
        """Starts the local cluster, with a CPU for each that roles request: they share this machine's cores anyway."""
        if self.address != LOCAL or self._has_joined:
            return
        self._within.enter_context(token(fresh=True))
        parent = parent_of_sockets(_LONGEST)
        remove_orphaned_folders(parent, f"{_PREFIX}*")  # of runs that were killed with their Ray
        self._directory = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        mark_folder(Path(self._directory))
        numbers = [str(number) for number in (cpus, gpus, store_bytes)]
        self._head = subprocess.Popen(
            [sys.executable, "-m", "veldt.runtime.on_ray.head", *numbers, self._directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        address = self._address_from(self._head)
        self._within.enter_context(on_loopback())
        self._init(address, _node_ip_address="127.0.0.1")

    def join(self) -> None:
        """Joins the cluster at the address. UsageError if that is not possible."""
        import ray

        if ray.is_initialized():
            joined = ray.get_runtime_context().gcs_address
            if joined != self.address:
                raise UsageError(
                    f"--cluster is '{self.address}', and this process has joined the Ray at {joined}: give that "
                    "address, or call ray.shutdown() first"
                )
            return
        _check_answers(self.address)
        self._within.enter_context(token(fresh=False))
        _try(self.address)
        self._init(self.address)

    def hosts(self) -> Hosts:
        """Returns what starts the hosts of this run, the same over all its restarts."""
        from veldt.runtime.on_ray.hosts import Hosts

        self._hosts = self._hosts or Hosts(is_own=self.address == LOCAL)
        return self._hosts

    def resources(self) -> dict[str, float]:
        """Returns the resources of all nodes: "CPU", "GPU", ..."""
        import ray

        found: dict[str, float] = ray.cluster_resources()
        return found

    def close(self) -> None:
        """Disconnects from the cluster; ends a cluster that was started for this run."""
        if self._has_joined:
            import ray

            with _signals_kept():
                ray.shutdown()
        if self._head is not None:
            _end(self._head)
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._within.close()

    def _init(self, address: str, **more: str) -> None:
        import ray

        with _signals_kept():
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                namespace=f"veldt-{os.getpid()}-{time.monotonic_ns()}",
                **more,
            )
        self._has_joined = True

    def _address_from(self, head: subprocess.Popen[bytes]) -> str:
        """Returns the address of the cluster, which the head process writes when the cluster is there."""
        assert head.stdout is not None and head.stderr is not None
        # Drains the pipe that Ray prints to; its last line is the reason if Ray does not start.
        errors = bytearray()
        reader = threading.Thread(target=_drain, args=(head.stderr, errors), daemon=True, name="ray-errors")
        reader.start()
        ready, _, _ = select.select([head.stdout], [], [], _START_S)
        address = head.stdout.readline().decode().strip() if ready else ""
        if not address:
            _end(head)
            reader.join(1.0)
            lines = errors.decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"it did not answer within {_START_S:g} s"
            raise VeldtError(
                f"Ray could not be started on this machine ({why}); leave out --cluster to do without"
            )
        return address


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Yields the cluster at `address` ("local": a new one for this run) until the block ends.

    Raises:
        UsageError: Ray is not installed, or there is no cluster that this process can join.
        VeldtError: the local cluster could not be started.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError(_NO_RAY)
    quiet()
    cluster = Cluster(address)
    try:
        if address != LOCAL:
            cluster.join()
        yield cluster
    finally:
        cluster.close()


def _check_answers(address: str) -> None:
    """UsageError unless a process listens at the address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "//" in address:
        raise UsageError(
            f"--cluster is '{address}': it must be 'local', or the address of a running Ray as HOST:PORT "
            "(`ray start --head` prints it)"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()
    except OSError as error:
        raise UsageError(
            f"--cluster is '{address}', and no Ray answers there ({error}): start one with `ray start --head`, or take "
            "--cluster local"
        ) from None


def _try(address: str) -> None:
    """Joins in another process first: Ray may wait for a minute, and then end the process that called it."""
    code = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, address],
            capture_output=True,
            timeout=_JOIN_S,
            text=True,
            errors="replace",
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stderr or b"").decode(errors="replace")
        if "uthenticat" in output:
            raise UsageError(why_not_joined(address, output)) from None
        raise UsageError(
            f"--cluster is '{address}', and what listens there did not answer as a Ray within {_JOIN_S:g} s: check the "
            f"address, and that this machine is one of its nodes (ray start --address={address} makes it one)"
        ) from None
    if done.returncode:
        raise UsageError(why_not_joined(address, done.stderr))


def why_not_joined(address: str, text: str) -> str:
    """Returns Ray's error output of a failed join as one sentence."""
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", text)
    if "Version mismatch" in text and len(versions) == 2:
        (theirs, their_python), (ours, our_python) = versions
        return (
            f"the cluster at {address} runs Ray {theirs} on Python {their_python}, and this process Ray {ours} on "
            f"Python {our_python}: both must be the same on all nodes; pip install ray=={theirs} with Python "
            f"{their_python}"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it gave no reason"]
    refused = [line for line in lines if "uthenticat" in line]
    reason = (refused or lines)[-1].rpartition("] ")[2][:200]
    if refused:
        return (
            f"the cluster at {address} does not let this process in ({reason}): put its token in ~/.ray/auth_token or "
            "RAY_AUTH_TOKEN, or, where its network is trusted and it has none, set RAY_AUTH_MODE=disabled"
        )
    return (
        f"--cluster is '{address}', and this process could not join it ({reason}): this machine must be one of its "
        f"nodes; ray start --address={address} makes it one"
    )


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restores the run's handlers of SIGINT and SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _drain(stream: Any, into: bytearray) -> None:
    """Keeps the end of what is written to a pipe, and closes it after that."""
    with stream, contextlib.suppress(OSError, ValueError):
        while chunk := stream.read1(4096):
            into += chunk
            del into[:-4096]


def _end(head: subprocess.Popen[bytes]) -> None:
    """Asks the head process to end, and kills all processes that it has started and that remain."""
    assert head.stdin is not None and head.stdout is not None
    family = _family(head.pid)
    with contextlib.suppress(OSError):
        head.stdin.close()
    try:
        head.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        # It starts no further process from here on. As long as it is there, a process whose parent is killed is below
        # it (on Linux), and found.
        head.send_signal(signal.SIGSTOP)
        end_below(head.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(head.pid, signal.SIGKILL)
    head.wait()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    head.stdout.close()
