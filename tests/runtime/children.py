"""What children of tests do."""

from __future__ import annotations

import os
import random
import time
from multiprocessing.connection import Connection

import numpy as np

from veldt.runtime.processes import leave_signals_to_parent


def answers(pipe: Connection) -> None:
    """Says back what it is told, until its parent ends."""
    while True:
        pipe.send_bytes(pipe.recv_bytes())


def draws(pipe: Connection) -> None:
    """Says a number of NumPy's global generator, of Python's, and of torch's."""
    import torch  # here alone: the other children start without it, two seconds sooner

    drawn = (np.random.random(), random.random(), torch.rand(1).item())  # noqa: NPY002
    pipe.send_bytes(repr(drawn).encode())


def closes_and_lingers(pipe: Connection) -> None:
    """As a process that was killed on a busy machine: its pipe is closed before it is gone."""
    pipe.close()
    time.sleep(0.5)
    os._exit(7)


def ignores_signals(pipe: Connection) -> None:
    """Does not heed signals to end, as a run's processes, which stop when the process that trains tells them to."""
    leave_signals_to_parent()
    pipe.send_bytes(b"begun")
    time.sleep(1000)
