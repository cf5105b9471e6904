"""State that outlives the process that wrote it."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np

from fork_servers import env_context
from veldt.exchange.persistent_state import PersistentState
from veldt.runtime.processes import Child
from veldt.runtime.shared import Layout


def writes_and_waits(pipe: Connection, persistent: PersistentState) -> None:
    persistent.fill({"sum": np.arange(5, dtype=np.float32), "count": np.array(3.0, np.float32)})
    persistent.arrays["sum"][0] = 9.0
    time.sleep(60.0)


def test_the_state_outlives_its_killed_writer() -> None:
    context = env_context()
    persistent = PersistentState({"sum": Layout((5,), "float32"), "count": Layout((), "float32")}, context)
    assert not persistent.is_filled
    child = Child(context, "writer", writes_and_waits, persistent)
    end = time.monotonic() + 30
    while persistent.arrays["sum"][0] != 9.0:
        assert time.monotonic() < end
        time.sleep(0.01)
    child.kill()
    assert not child.alive()
    assert persistent.is_filled and persistent.arrays["sum"].tolist() == [9, 1, 2, 3, 4]
    assert float(persistent.arrays["count"]) == 3.0
