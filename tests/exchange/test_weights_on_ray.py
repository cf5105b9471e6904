"""Weights on Ray."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from queued_transport import QueuedTransport

from veldt.exchange.graph import Edge, Graph, Role, WeightsSpec
from veldt.exchange.on_ray.edge_endpoints import EdgeFor
from veldt.exchange.on_ray.weights import RayWeightsPublisher, RayWeightsReader
from veldt.runtime.on_ray.transport import Message
from veldt.runtime.shared import Layout, SharedArrays


def test_weights_come_whole_newest_and_without_waiting() -> None:
    layouts = {"params": Layout((1000,), "float32"), "mean": Layout((3,), "float64")}
    transport = QueuedTransport()
    source = RayWeightsPublisher(transport.starts("learner"), "weights", layouts, ["actor"])
    reader = RayWeightsReader(transport.starts("actor"), "weights", layouts, "learner")
    into = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}

    def pulled(than: int) -> int:
        end = time.monotonic() + 20
        while (version := reader.pull_if_newer(than, into)) == than:
            transport.carry()
            assert time.monotonic() < end
            time.sleep(0.001)
        return version

    reader.check(into)
    began = time.monotonic()
    for _ in range(1000):
        assert reader.pull_if_newer(-1, into) == -1
    assert time.monotonic() - began < 0.5, "a look that finds nothing costs nothing"
    source.publish(3, {name: np.ones_like(array) for name, array in into.items()})
    assert pulled(-1) == 3 and (into["params"] == 1).all() and (into["mean"] == 1).all()
    assert reader.pull_if_newer(3, into) == 3
    for version in range(4, 40):
        source.publish(version, {name: np.full_like(array, version) for name, array in into.items()})
    version = pulled(3)
    while version < 39:
        assert (into["params"] == version).all() and (into["mean"] == version).all()
        version = pulled(version)
    # A learner that goes on from an older version is heard.
    source = RayWeightsPublisher(transport.starts("learner"), "weights", layouts, ["actor"])
    source.publish(20, {name: np.full_like(array, 20) for name, array in into.items()})
    assert pulled(39) == 20 and (into["params"] == 20).all()


def test_processes_of_one_role_read_what_one_of_them_writes() -> None:
    """In a ring: each publishes on an edge that its neighbour, and of the first one the evaluator, reads."""
    layouts = {"params": Layout((10,), "float32")}
    edges = {
        f"weights {rank}": Edge("learner", "learner", "weights", WeightsSpec(layouts), writer=rank)
        for rank in range(3)
    }
    wiring = [{"own": f"weights {rank}", "neighbour": f"weights {(rank - 1) % 3}"} for rank in range(3)]
    learner = Role("learner", "", lambda control, plan, own, neighbour: None, [None] * 3, wiring, 0, 1.0)
    evaluator = Role(
        "evaluator", "", lambda control, plan, weights: None, [None], [{"weights": "weights 0"}], 0, 1.0
    )
    graph, transport = Graph((learner, evaluator), edges), QueuedTransport()
    ends: dict[tuple[str, str], Any] = {}
    for role in graph.roles:
        for index in range(len(role.plans)):
            host = transport.starts(role.named(index))
            for name in role.edge_names(index):
                ends[role.named(index), name] = EdgeFor.of(graph, role, index, name).open(host)
    into = {"params": np.zeros(10, np.float32)}
    for rank in range(3):
        ends[f"learner {rank}", f"weights {rank}"].publish(rank, {"params": np.full(10, rank, np.float32)})
    for reader, rank in (("learner 1", 0), ("learner 2", 1), ("learner 0", 2), ("evaluator", 0)):
        end = time.monotonic() + 20
        while ends[reader, f"weights {rank}"].pull_if_newer(-1, into) != rank:
            transport.carry()
            assert time.monotonic() < end
            time.sleep(0.001)
        assert (into["params"] == rank).all()


def test_a_new_incarnation_continues_from_the_newest_that_a_reader_has() -> None:
    layouts = {"params": Layout((10,), "float32")}
    transport = QueuedTransport()
    readers = ["actor 0", "actor 1", "actor 2"]
    source = RayWeightsPublisher(transport.starts("server"), "part", layouts, readers)
    ends = [RayWeightsReader(transport.starts(name), "part", layouts, "server") for name in readers]
    into = {"params": np.zeros(10, np.float32)}

    def until(version: int, end: RayWeightsReader | RayWeightsPublisher) -> None:
        has, last = -1, time.monotonic() + 20
        while (has := end.pull_if_newer(has, into)) != version:
            transport.carry()
            assert time.monotonic() < last
            time.sleep(0.001)

    assert source.pull_if_newer(-1, into) == -1, "in the first life there is nobody to ask"
    source.publish(4, {"params": np.full(10, 4, np.float32)})
    until(4, ends[0])
    source.publish(7, {"params": np.full(10, 7, np.float32)})
    until(7, ends[1])
    again = RayWeightsPublisher(transport.starts("server"), "part", layouts, readers)
    until(7, again)
    assert (into["params"] == 7).all()
    third = RayWeightsPublisher(transport.starts("server"), "part", layouts, readers)
    for version in (5, 6, 4):  # in whatever order they answer
        block = SharedArrays(layouts, None)
        block["params"][:] = version
        third._receive(Message("actor 0", 0, "had", (version, block.block)))
    until(6, third)
    assert (into["params"] == 6).all()
    again.publish(8, {"params": np.full(10, 8, np.float32)})
    assert again.pull_if_newer(-1, into) == 8, "what it has published itself"
