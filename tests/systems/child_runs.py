"""Runs in processes of their own, which a test may kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

START_S = 60.0  # to import, make environments and begin, on a busy machine
END_S = 5.0  # within which everything of an ended run has to be gone


def child(code: str, cwd: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """A Python process that runs `code`; see `started`."""
    return started(["-c", code], cwd)


def trained(words: str, cwd: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """The command `veldt train` with these words; see `started`."""
    return started(["-m", "veldt", "train", *words.split()], cwd)


@contextmanager
def started(arguments: Sequence[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process, alone in its process group; whatever is left of it at the end is killed."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    family: list[psutil.Process] = []
    try:
        yield process
    finally:
        if process.poll() is None:
            family = descendants(process.pid)
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait(10)
        for member in family:
            if member.is_running():
                member.kill()


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below `pid`, at this moment."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def roles(pid: int) -> dict[str, psutil.Process]:
    """The processes of a run below `pid` by the names of their roles."""
    found = {}
    for process in descendants(pid):
        try:
            found[process.name()] = process
        except psutil.NoSuchProcess:
            continue
    return {name: process for name, process in found.items() if "python" not in name}


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Returns as soon as `condition` holds; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:g} s still not: {what}"
        time.sleep(0.02)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those still running; a process that has ended and only waits for its parent to notice does not count."""
    running = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
        except psutil.NoSuchProcess:
            continue
    return running


def shared_memory() -> set[str]:
    """Names in /dev/shm."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
