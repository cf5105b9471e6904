"""What each edge costs on this machine, in seconds of one core's own time: by bytes, rows, parameters or agents."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

import gradient_makers
import numpy as np
import torch

import replay
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.envs.spec import ActionSpec
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.gradients import AllReduce
from veldt.exchange.inference import InferenceEdge, InferenceSpec
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.learning.optimiser import LocalOptimiser
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.settings import NStep, ReplayConfig
from veldt.runtime.processes import Child, forkserver
from veldt.runtime.shared import Layout

Points = dict[str, list[tuple[int, float]]]

_FRAMES = (104, 80, 4)
_DEADLINE_S = 120.0


def add(points: Points, name: str, count: int, seconds: float) -> None:
    points.setdefault(name, []).append((count, seconds))


def weights(points: Points, seconds: float) -> None:
    """A version of some bytes, published and pulled."""
    for count in (1_000, 1_000_000, 4_000_000):
        arrays = {"w": np.zeros(count, np.float32)}
        edge, version = SharedWeights({"w": Layout((count,), "float32")}, None), itertools.count()
        edge.publish(next(version), arrays)
        add(
            points,
            "publish",
            4 * count,
            _core_s(lambda e=edge, v=version, a=arrays: e.publish(next(v), a), seconds),
        )
        add(points, "pull", 4 * count, _core_s(lambda e=edge, a=arrays: e.pull_if_newer(-1, a), seconds))


def slots(points: Points, seconds: float) -> None:
    """A slot of some bytes, written and committed; and taken, copied and released."""
    for count in (1_000, 200_000, 2_000_000):
        rings = SlotRings({"rows": Layout((count,), "uint8")}, 1, 3, forkserver([]))
        out, incoming = rings.producer(0), rings.consumer()
        source, target = np.ones(count, np.uint8), np.ones(count, np.uint8)

        def hand_over(out: Any = out, source: np.ndarray = source) -> None:
            np.copyto(out.slot(1.0)["rows"], source)
            out.commit()

        def take(incoming: Any = incoming, target: np.ndarray = target) -> None:
            np.copyto(target, incoming.take(1.0).arrays["rows"])
            incoming.release(0)

        written, taken = _core_s_in_turn(hand_over, take, seconds)
        add(points, "hand over", count, written)
        add(points, "take", count, taken)


def shard(points: Points, seconds: float) -> None:
    """Rows stored, drawn into a batch, and given new priorities, in a replay buffer of 50,000 stacked frames."""
    config, returns = ReplayConfig(buffer_size=50_000, replay="prioritised"), NStep(3, 0.99, True, True)
    buffer, rng = replay.filled(replay.ATARI, 16, config, returns, 1), np.random.default_rng(0)
    for steps in (4, 64):
        slot = replay.full_slot(replay.ATARI, steps, 16)
        priority = rng.random(slot.reward.shape)
        add(points, "add", steps * 16, _core_s(lambda s=slot, p=priority: buffer.append(s, p), seconds))
    for rows in (32, 128, 512):
        seeds, batch = itertools.count(), ReplayBatch.allocate(batch_layouts(replay.ATARI, rows))

        def draw(batch: ReplayBatch = batch, seeds: Iterator[int] = seeds) -> None:
            buffer.sample(batch, next(seeds))

        add(points, "draw", rows, _core_s(draw, seconds))
        new = rng.random(rows)
        add(points, "renew", rows, _core_s(lambda k=batch.key_N, n=new: buffer.update(k, n), seconds))


def store(points: Points, seconds: float) -> None:
    """An update of all parameters: in the central store, and by one's own rule."""
    parameters, rule = gradient_makers.network()[1], gradient_makers.RULE
    initial = {PARAMETERS: parameters.fp32_params, **rule.state(parameters.fp32_params)}
    edge = CentralStore(
        CentralStoreSpec({name: value.numpy() for name, value in initial.items()}, 3, 60.0), None
    )
    optimiser, _, _ = gradient_makers.learner(edge, 0, parameters)
    gradient_P, count = torch.full_like(parameters.fp32_params, 1e-3), len(parameters.fp32_params)
    add(points, "store", count, _core_s(lambda: optimiser.apply(gradient_P, {"all": 1e-4}), seconds))
    own = LocalOptimiser(A2C(A2CConfig(), ActionSpec("discrete", (2,))), parameters)
    add(points, "rule", count, _core_s(lambda: own.apply(gradient_P, {"all": 1e-4}), seconds))


def requests(points: Points, seconds: float) -> None:
    """Requests of `agents` agents with a stack of frames, and answers: the agent processes' and the model's part."""
    for width in (1, 16, 128):
        spec = InferenceSpec({"seen": Layout(_FRAMES, "uint8")}, {"action": Layout((), "int64")}, 1, width)
        edge = InferenceEdge(spec, forkserver([]))
        client, server, agent_R = edge.client(0), edge.server(), np.arange(width)
        seen = np.ones((width, *_FRAMES), np.uint8)

        def ask(client: Any = client, agent_R: np.ndarray = agent_R, seen: np.ndarray = seen) -> None:
            client.requests["seen"][agent_R] = seen
            client.request(agent_R)

        def answer(server: Any = server, width: int = width) -> None:
            asked = server.take(width, 1.0)
            server.requests["seen"][asked.agent_R]
            server.answers["action"][asked.agent_R] = 1
            server.reply(asked)

        def hear(client: Any = client) -> None:
            client.answers["action"][client.answered(1.0)]

        asked, answered, heard = _core_s_in_turn(ask, answer, seconds, hear)
        add(points, "request", width, asked + heard)
        add(points, "reply", width, answered)


def _echo(pipe: Connection, there: Semaphore, back: Semaphore, times: int) -> None:
    for _ in range(times):
        there.acquire()
        back.release()


def wake(times: int = 5_000) -> float:
    """Own time of a process that wakes another and is woken by it, once each."""
    context = forkserver([])
    there, back = context.Semaphore(0), context.Semaphore(0)
    child = Child(context, "echo", _echo, there, back, times)
    try:
        there.release(), back.acquire()  # it is there
        begin = time.process_time()
        for _ in range(times - 1):
            there.release()
            back.acquire()
        return (time.process_time() - begin) / (times - 1)
    finally:
        child.kill()


def reduced(count: int) -> float:
    """Own time of one of two processes in an all-reduce of so many float32 by Gloo."""
    with tempfile.TemporaryDirectory() as scratch:
        rendezvous_file, context = Path(scratch) / "rendezvous_file", forkserver(["torch"])
        children = [Child(context, f"rank {rank}", _reduce, rank, rendezvous_file, count) for rank in (0, 1)]
        try:
            said = [child.receive(_DEADLINE_S) for child in children]
        finally:
            for child in children:
                child.kill()
    return statistics.mean(float(np.frombuffer(one)[0]) for one in said if one is not None)


def _reduce(pipe: Connection, rank: int, rendezvous_file: Path, count: int) -> None:
    torch.set_num_threads(1)
    edge, gradient_P = AllReduce(rank, 2, rendezvous_file, torch.device("cpu")), torch.ones(count)
    for _ in range(3):
        edge.reduce(gradient_P)
    times, begin = max(10, 20_000_000 // count // 10), time.process_time()
    for _ in range(times):
        edge.reduce(gradient_P)
    pipe.send_bytes(np.array([(time.process_time() - begin) / times]).tobytes())
    pipe.recv_bytes()  # until it is ended: the other may still be at it


def _core_s(work: Callable[[], object], seconds: float) -> float:
    """Of a call, after one that compiles and touches all memory."""
    return _core_s_in_turn(work, lambda: None, seconds)[0]


def _core_s_in_turn(
    first: Callable[[], object], second: Callable[[], object], seconds: float, *others: Callable[[], object]
) -> list[float]:
    """Of each, called one after another: medians over tenths of the time, so that a slow moment is left out."""
    works = (first, second, *others)
    for work in works:
        work()
    found: list[list[float]] = [[] for _ in works]
    for _ in range(10):
        spent, times, begin = [0.0] * len(works), 0, time.process_time()
        while time.process_time() < begin + seconds / 10 or times < 3:
            for number, work in enumerate(works):
                before = time.process_time()
                work()
                spent[number] += time.process_time() - before
            times += 1
        for values, value in zip(found, spent, strict=True):
            values.append(max(0.0, value / times - _LOOK_S))
    return [statistics.median(values) for values in found]


def _look() -> float:
    """What it costs to look at the clock."""
    begin = time.process_time()
    for _ in range(10_000):
        time.process_time()
    return (time.process_time() - begin) / 10_000


_LOOK_S = _look()
