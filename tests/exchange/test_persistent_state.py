"""State that outlives the process that wrote it."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np

from veldt.exchange.persistent_state import PersistentState
from veldt.runtime.processes import Child, forkserver
from veldt.runtime.shared import Layout


def writes_and_waits(pipe: Connection, kept: PersistentState) -> None:
    kept.fill({"sum": np.arange(5, dtype=np.float32), "count": np.array(3.0, np.float32)})
    kept.arrays["sum"][0] = 9.0
    time.sleep(60.0)


def test_what_was_written_is_there_when_the_writer_is_killed() -> None:
    context = forkserver(["veldt.envs.worker", "gymnasium", "veldt.envs.atari"])
    kept = PersistentState({"sum": Layout((5,), "float32"), "count": Layout((), "float32")}, context)
    assert not kept.is_filled
    child = Child(context, "writer", writes_and_waits, kept)
    end = time.monotonic() + 30
    while kept.arrays["sum"][0] != 9.0:
        assert time.monotonic() < end
        time.sleep(0.01)
    child.kill()
    assert not child.alive()
    assert kept.is_filled and kept.arrays["sum"].tolist() == [9, 1, 2, 3, 4]
    assert float(kept.arrays["count"]) == 3.0
