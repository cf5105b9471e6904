"""Commands that run side by side, each in a process of its own and on cores of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Generic, TypeVar

from veldt.experiments.owned_process import OwnedProcess
from veldt.runtime.cores import allowed_cores
from veldt.runtime.endings import how_it_ended

_INTERRUPT_S = 60.0  # in which an interrupted run writes its checkpoint
_READ_AT_THE_END = 2_000  # bytes of standard error

Key = TypeVar("Key")


@dataclass(frozen=True)
class EndedCommand(Generic[Key]):
    """A command that has ended: its exit code, what it printed, and the sentence with which it failed ("" if none)."""

    key: Key
    code: int
    printed: str
    sentence: str


@dataclass
class _Running(Generic[Key]):
    key: Key
    process: OwnedProcess
    cores: list[int]
    stdout: IO[bytes]
    stderr: IO[bytes]
    killed_at: float = float("inf")

    def close(self) -> None:
        """To be called once, after the end of the process."""
        for part in (self.process, self.stdout, self.stderr):
            part.close()


class SideBySide(Generic[Key]):
    """Runs commands on the cores that this process may use; a command is known by its key."""

    def __init__(self) -> None:
        self._free = allowed_cores()
        self._all = len(self._free)
        self._running: list[_Running[Key]] = []

    @property
    def is_idle(self) -> bool:
        """Whether no command runs."""
        return not self._running

    def fits(self, cores: int) -> bool:
        """Returns whether a command can be started now that needs this many cores; 0: all of them."""
        return self._wanted(cores) <= len(self._free)

    def start(self, key: Key, command: Sequence[str], cores: int) -> None:
        """Starts a command that fits."""
        wanted = self._wanted(cores)
        own = self._free[:wanted]
        with contextlib.ExitStack() as files:
            stdout = files.enter_context(tempfile.TemporaryFile())
            stderr = files.enter_context(tempfile.TemporaryFile())
            process = OwnedProcess(command, stdout, stderr, own)
            files.pop_all()  # closed at the end of the process
        self._free = self._free[wanted:]
        self._running.append(_Running(key, process, own, stdout, stderr))

    def ended(self) -> Iterator[EndedCommand[Key]]:
        """Yields each command that has ended since the last call."""
        for one in list(self._running):
            if one.process.poll() is None and time.monotonic() > one.killed_at:
                one.process.kill()
            if (code := one.process.poll()) is None:
                continue
            self._running.remove(one)
            self._free = sorted([*self._free, *one.cores])
            one.stdout.seek(0)
            printed = one.stdout.read().decode(errors="replace")
            ended = EndedCommand(one.key, code, printed, last_sentence(one.stderr, code))
            one.close()
            yield ended

    def interrupt(self, key: Key) -> None:
        """Asks a command to end as by Ctrl-C; it is killed if it has not ended after a minute."""
        for one in self._running:
            if one.key == key and one.killed_at == float("inf"):
                one.process.interrupt()
                one.killed_at = time.monotonic() + _INTERRUPT_S

    def interrupt_all(self) -> None:
        """Asks all commands to end as by Ctrl-C, and waits for that; after a minute, they are killed."""
        for one in self._running:
            one.process.interrupt()
        until = time.monotonic() + _INTERRUPT_S
        while self._running:
            one = self._running.pop()
            one.process.wait(until - time.monotonic())
            one.close()
            self._free = sorted([*self._free, *one.cores])

    def _wanted(self, cores: int) -> int:
        return min(cores or self._all, self._all)


def last_sentence(stderr: IO[bytes], code: int) -> str:
    """Returns why a command with this exit code has failed: its last line with `veldt: `, else its last line.

    A command that a signal has killed had no time to say so: its last line is of its progress.
    """
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _READ_AT_THE_END))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    ours = [line.removeprefix("veldt: ") for line in lines if line.startswith("veldt: ")]
    if code < 0 and not ours:
        return f"its process {how_it_ended(code)}"
    return (ours or lines or [""])[-1]
