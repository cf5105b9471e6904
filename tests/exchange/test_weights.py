"""Weights across processes: whole, the newest, and without waiting."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

from fork_servers import env_context
from veldt.errors import VeldtError
from veldt.exchange.weights import SharedWeights
from veldt.runtime.processes import Child
from veldt.runtime.shared import Layout

LAYOUTS = {"params": Layout((50_000,), "float32"), "mean": Layout((3,), "float64")}


def arrays(value: float = 0.0) -> dict[str, np.ndarray]:
    return {name: np.full(layout.shape, value, layout.dtype) for name, layout in LAYOUTS.items()}


def publish_for_ever(pipe: Connection, weights: SharedWeights) -> None:
    version = 0
    while not pipe.poll(0):
        version += 1
        weights.publish(version, arrays(version))


def test_nothing_is_pulled_before_the_first_publish_and_no_version_twice() -> None:
    weights, into = SharedWeights(LAYOUTS, None), arrays(7)
    assert weights.pull_if_newer(-1, into) == -1 and weights.pull_if_newer(5, into) == 5
    assert (into["params"] == 7).all()
    weights.publish(3, arrays(1))
    assert weights.pull_if_newer(-1, into) == 3
    assert (into["params"] == 1).all() and (into["mean"] == 1).all()
    into["params"][:] = 8
    assert weights.pull_if_newer(3, into) == 3
    assert (into["params"] == 8).all()


def test_readers_pull_an_older_version_that_a_restarted_learner_publishes() -> None:
    weights, into = SharedWeights(LAYOUTS, None), arrays()
    weights.publish(500, arrays(500))
    assert weights.pull_if_newer(-1, into) == 500
    weights.publish(400, arrays(400))
    assert weights.pull_if_newer(500, into) == 400 and (into["params"] == 400).all()


def test_no_reader_sees_half_of_two_versions() -> None:
    context = env_context()
    weights, into = SharedWeights(LAYOUTS, context), arrays()
    child = Child(context, "publisher", publish_for_ever, weights)
    try:
        version, seen, end = -1, set(), time.monotonic() + 60
        while len(seen) < 200:
            assert time.monotonic() < end and child.alive()
            version = weights.pull_if_newer(version, into)
            if version >= 0:
                seen.add(version)
                assert (into["params"] == version).all() and (into["mean"] == version).all()
        assert sorted(seen) == list(dict.fromkeys(sorted(seen)))
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("mean", np.zeros(4), r"'mean' are float64 \[4\] here and float64 \[3\] at their source"),
        ("mean", np.zeros(3, np.float32), r"'mean' are float32 \[3\] here"),
        ("extra", np.zeros(1), r"'extra' are float64 \[1\] here and absent at their source"),
    ],
)
def test_other_shapes_are_refused(name: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(VeldtError, match=message):
        SharedWeights(LAYOUTS, None).check(arrays() | {name: array})
