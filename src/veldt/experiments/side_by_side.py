"""Commands that run side by side, each in a process of its own and on cores of its own."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Generic, TypeVar

from veldt.experiments.owned_process import OwnedProcess
from veldt.runtime.cores import allowed_cores

_INTERRUPT_S = 60.0  # in which an interrupted run writes its checkpoint
_SAID = 2_000  # bytes

Key = TypeVar("Key")


@dataclass(frozen=True)
class Ended(Generic[Key]):
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
    out: IO[bytes]
    said: IO[bytes]
    killed_at: float = float("inf")


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
        own, self._free = self._free[:wanted], self._free[wanted:]
        out = tempfile.TemporaryFile()  # noqa: SIM115 # closed by ended
        said = tempfile.TemporaryFile()  # noqa: SIM115
        self._running.append(_Running(key, OwnedProcess(command, out, said, own), own, out, said))

    def ended(self) -> Iterator[Ended[Key]]:
        """Yields each command that has ended since the last call."""
        for one in list(self._running):
            if one.process.poll() is None and time.monotonic() > one.killed_at:
                one.process.kill()
            if (code := one.process.poll()) is None:
                continue
            self._running.remove(one)
            self._free = sorted([*self._free, *one.cores])
            one.out.seek(0)
            ended = Ended(one.key, code, one.out.read().decode(errors="replace"), last_sentence(one.said))
            for part in (one.process, one.out, one.said):
                part.close()
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
        for one in self._running:
            one.process.wait(until - time.monotonic())

    def _wanted(self, cores: int) -> int:
        return min(cores or self._all, self._all)


def last_sentence(said: IO[bytes]) -> str:
    """Returns what a failed command has said: its line that begins with `veldt: `, else its last line."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID))
    lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    ours = [line.removeprefix("veldt: ") for line in lines if line.startswith("veldt: ")]
    return (ours or lines or [""])[-1]
