"""Processes that end with this one, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import IO

from veldt.runtime.endings import end_with


class OwnedProcess:
    """A command in a session of its own, so that Ctrl-C reaches this process alone. It is killed if this one ends.

    Args:
        stdout, stderr: get what it writes there.
        cores: the cores on which it runs; None: all.
    """

    def __init__(
        self,
        command: Sequence[str],
        stdout: IO[bytes] | int,
        stderr: IO[bytes],
        cores: Sequence[int] | None = None,
    ) -> None:
        # A pipe for each: the kernel signals the end of a pipe to one process only.
        parent_pipe, self._own = os.pipe()

        def prepare() -> None:
            end_with(parent_pipe)
            if cores is not None and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, cores)

        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                preexec_fn=prepare,  # noqa: PLW1509 # this process has no other thread
                pass_fds=[parent_pipe],
                start_new_session=True,
            )
        except BaseException:
            os.close(self._own)
            raise
        finally:
            os.close(parent_pipe)

    def poll(self) -> int | None:
        """Returns its exit code, None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Asks it to end, as by Ctrl-C."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Ends it at once."""
        if self.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self, seconds: float) -> None:
        """Waits for its end, and kills it afterwards."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()

    def close(self) -> None:
        """Closes the pipe whose end would end it; to be called once, after its end."""
        os.close(self._own)
