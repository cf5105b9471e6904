"""Processes of `gradients.py`: each waits for the word, works for some seconds, and says how often it did.

They say float64 [3]: times a second, seconds blocked, seconds updating.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.envs.spec import ActionSpec
from veldt.exchange.central_store import CentralStore, CentralStoreClient
from veldt.functional.updates import RMSProp
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.networks.flat import FlatParameters

RULE = RMSProp()
_BATCH = 80  # rows: 16 envs x 5 steps
_UPDATES = 3  # vectors that an update reads and writes: parameters, their accumulator, the learner's own copy


def network() -> tuple[nn.Module, FlatParameters]:
    """One of 4.3 M parameters."""
    layers = nn.Sequential(nn.Linear(1500, 1500), nn.ReLU(), nn.Linear(1500, 1360))
    return layers, FlatParameters(layers)


def copies(pipe: Connection, seconds: float, _: None, rank: int) -> None:
    """As many bytes as an update writes, from memory to memory."""
    torch.set_num_threads(1)
    source = torch.ones(_UPDATES, len(network()[1].fp32_params))
    target = torch.zeros_like(source)
    _work(pipe, seconds, lambda: target.copy_(source), None)


def updates(pipe: Connection, seconds: float, store: CentralStore, rank: int) -> None:
    """The same gradient again and again."""
    optimiser, end, parameters = learner(store, rank)
    gradient_P = torch.full_like(parameters.fp32_params, 1e-3)
    _work(pipe, seconds, lambda: optimiser.apply(gradient_P, {"all": 1e-4}), end)


def gradients(pipe: Connection, seconds: float, store: CentralStore, rank: int) -> None:
    """Each after a forward and a backward pass."""
    layers, parameters = network()
    optimiser, end, _ = learner(store, rank, parameters)
    rows = torch.randn(_BATCH, 1500)

    def learn() -> None:
        parameters.backward(layers(rows).square().mean())
        optimiser.apply(parameters.gradient, {"all": 1e-4})

    _work(pipe, seconds, learn, end)


def learner(
    store: CentralStore, rank: int, parameters: FlatParameters | None = None
) -> tuple[CentralOptimiser, CentralStoreClient, FlatParameters]:
    torch.set_num_threads(1)
    parameters, end = parameters or network()[1], store.client(rank)
    algorithm = A2C(A2CConfig(), ActionSpec("discrete", (2,)))
    return CentralOptimiser(algorithm, parameters, end, local_steps=1), end, parameters


def _work(
    pipe: Connection, seconds: float, work: Callable[[], Tensor | None], end: CentralStoreClient | None
) -> None:
    work()  # compiles, and touches all memory once
    pipe.send_bytes(b"ready")
    pipe.recv_bytes()
    before = (0.0, 0.0) if end is None else (end.blocked_s, end.updating_s)
    times, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        work()
        times += 1
    rate = times / (time.perf_counter() - begin)
    after = (0.0, 0.0) if end is None else (end.blocked_s, end.updating_s)
    pipe.send_bytes(np.array([rate, after[0] - before[0], after[1] - before[1]]).tobytes())
