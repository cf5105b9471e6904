"""What children of tests do."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection


def answers(pipe: Connection) -> None:
    """Says back what it is told, until its parent ends."""
    while True:
        pipe.send_bytes(pipe.recv_bytes())


def closes_and_lingers(pipe: Connection) -> None:
    """As a process that was killed on a busy machine: its pipe is closed before it is gone."""
    pipe.close()
    time.sleep(0.5)
    os._exit(7)
