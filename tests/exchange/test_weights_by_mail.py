"""Weights by mail."""

from __future__ import annotations

import time

import numpy as np
from letters import Post

from veldt.exchange.on_ray.weights import WeightsReader, WeightsSource
from veldt.runtime.shared import Layout


def test_weights_come_whole_newest_and_without_waiting() -> None:
    layouts = {"master": Layout((1000,), "float32"), "mean": Layout((3,), "float64")}
    post = Post()
    source = WeightsSource(post.starts("learner"), "weights", layouts)
    reader = WeightsReader(post.starts("actor"), "weights", layouts, "learner")
    into = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}

    def pulled(than: int) -> int:
        end = time.monotonic() + 20
        while (version := reader.pull_if_newer(than, into)) == than:
            post.carry()
            assert time.monotonic() < end
            time.sleep(0.001)
        return version

    reader.check(into)
    began = time.monotonic()
    for _ in range(1000):
        assert reader.pull_if_newer(-1, into) == -1
    assert time.monotonic() - began < 0.5, "a look that finds nothing costs nothing"
    source.publish(3, {name: np.ones_like(array) for name, array in into.items()})
    assert pulled(-1) == 3 and (into["master"] == 1).all() and (into["mean"] == 1).all()
    assert reader.pull_if_newer(3, into) == 3
    for version in range(4, 40):
        source.publish(version, {name: np.full_like(array, version) for name, array in into.items()})
    version = pulled(3)
    while version < 39:
        assert (into["master"] == version).all() and (into["mean"] == version).all()
        version = pulled(version)
    # A learner that goes on from an older version is heard.
    source = WeightsSource(post.starts("learner"), "weights", layouts)
    source.publish(20, {name: np.full_like(array, 20) for name, array in into.items()})
    assert pulled(39) == 20 and (into["master"] == 20).all()
