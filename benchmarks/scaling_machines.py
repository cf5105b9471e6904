"""Machines that are not here, on assumptions; and what a step costs on them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaling_model import LinearCost, line_through
from scaling_systems import Costs

BREAKOUT, CARTPOLE = "ALE/Breakout-v5", "CartPole-v1"
_FRAME = 104 * 80
CORES = 128  # of a machine: beyond, actors are elsewhere

# Multiplications and additions of a forward pass for one row of 4 x 104 x 80 frames: A3C-Net's layers of 3.9, 1.8 and
# 1.8 million, dueling DQN-Net's of 7.8, 7.1, 8.0 and 14.2 million. And how many such passes an update is: a backward
# pass is two, double Q-learning has two more forward ones.
_FLOPS = {"a3c": 7.5e6, "dqn": 37e6}
_PASSES = {"a2c": 3, "ppo": 3, "vtrace": 3, "dqn": 5}


@dataclass(frozen=True)
class Device:
    """Assumed, and nowhere measured here; SOURCES says by what.

    Args:
        flops: a second, of these small networks.
        infer_s, update_s: that the host takes to launch an inference, an update.
        carry: bytes a second between host and device.
        link: bytes a second between devices.
        reduce_s: that any all-reduce takes.
    """

    flops: float
    infer_s: float = 0.2e-3
    update_s: float = 2e-3
    carry: float = 20e9
    link: float = 200e9
    reduce_s: float = 50e-6


GPU = Device(flops=8e12)
P100 = Device(flops=2e12, carry=10e9, link=20e9)
MESSAGE = LinearCost(280e-6, 1 / 300e6)
WIRE = LinearCost(20e-6, 1 / 10e9)
SOURCES = {
    "P100, effective": (
        "2 TFLOP/s",
        "a fifth of its peak (10.6, fp32: data sheet); one number for all published rates",
    ),
    "GPU of the tables, effective": (
        "8 TFLOP/s",
        "a guess, four P100; an A100 has 2.7 times its memory bandwidth",
    ),
    "to launch an inference · an update": (
        "0.2 · 2 ms",
        "40 and 400 kernels of 5 µs, PyTorch without graphs",
    ),
    "host to device": ("20 GB/s (P100: 10)", "two thirds of PCIe 4 (3) x16"),
    "device to device": (
        "200 GB/s (P100: 20)",
        "a third of NVLink 3's 600 both ways (an eighth of NVLink 1's 160)",
    ),
    "an all-reduce at least": ("50 µs", "the order of NCCL's latency on one machine"),
    "cores of a machine": ("128", "a server of eight GPUs; each core as fast as the one measured"),
    "a message of Ray": (
        "280 µs + 3.3 ns a byte",
        "benchmarks.md; 300 MB/s of arrays of 3 MB, once, two cores",
    ),
    "a message at the wire's speed": (
        "20 µs + 0.1 ns a byte",
        "four fifths of 100 Gbit/s Ethernet, no Python",
    ),
}


def costs(
    found: dict[str, Any], network: str, algorithm: str, env: str = BREAKOUT, device: Device | None = None
) -> Costs:
    """Of acting on cores, and of learning on the device or, without one, on a core."""
    lines = {name: line_through(points) for name, points in found["seconds"].items()}
    infer, update = lines[f"infer {network}"], lines[f"update {algorithm}"]
    at, update_at, carry = infer, update, lambda count: 0.0
    summed = lines["all-reduce"]
    reduce: Callable[[float, float], float] = lambda count, learners: summed(count) if learners > 1 else 0.0  # noqa: E731
    if device is not None:
        of_row = _FLOPS[network] / device.flops
        at, update_at = (
            LinearCost(device.infer_s, of_row),
            LinearCost(device.update_s, _PASSES[algorithm] * of_row),
        )
        carry = lambda count: count / device.carry  # noqa: E731
        reduce = functools.partial(_ring, device)
    step = _FRAME + 50 if env == BREAKOUT else 70
    return Costs(
        simulate=lines[f"simulate {env}"](1),
        infer=infer,
        update=update,
        infer_at=at,
        update_at=update_at,
        reduce=reduce,
        carry=carry,
        edges=lines | {"message": MESSAGE},
        parameters=found["parameters"][network],
        step_bytes=step,
        row_bytes=8 * _FRAME + 50 if env == BREAKOUT else 100,
    )


def _ring(device: Device, count: float, learners: float) -> float:
    return 0.0 if learners == 1 else device.reduce_s + 2 * (learners - 1) / learners * count / device.link
