"""Chooses the precision and the threads that train a network fastest, by timing forward and backward passes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import torch

from veldt.algorithms.rollout import Observation
from veldt.networks.build import UserTorso
from veldt.networks.precision import Network, apply_precision, low_precision_parts
from veldt.runtime.devices import synchronise, training_threads
from veldt.runtime.usual_torch import kept_random_numbers

# Up to this many parameters, waking a second thread costs more time than the thread saves.
_SMALL_NETWORK = 200_000
# Threads busy-wait for each other after every operation: when another process takes one of their cores, they are
# several times slower than one thread. So they must gain at least this factor.
WORTH_THREADS = 1.4
# Timings differ from run to run by less than this: two equal commands have to choose the same arithmetic.
WORTH_BF16 = 1.25
# Passes that are timed: fewer where they take very long.
_PASSES, _LEAST_PASSES, _SECONDS = 6, 2, 2.0


@dataclass(frozen=True)
class Arithmetic:
    """How to compute. `reasons` are sentences for the user. `threads_matter`: more than one thread may be faster."""

    precision: str
    threads: int
    reasons: tuple[str, ...]
    threads_matter: bool


@dataclass(frozen=True)
class ThreadTimes:
    """Seconds of a forward and a backward pass on one thread and on `many`."""

    many: int
    one_s: float
    many_s: float

    @property
    def best(self) -> int:
        """The number of threads to train with."""
        return self.many if self.one_s / self.many_s >= WORTH_THREADS else 1

    def __str__(self) -> str:
        gain = "" if self.best == self.many else f", not {WORTH_THREADS:g} times as fast"
        return f"{self.one_s * 1e3:.1f} ms on 1 thread, {self.many_s * 1e3:.1f} ms on {self.many}{gain}"


def time_threads(
    make_network: Callable[[], Network], observation: Observation, precision: str
) -> ThreadTimes:
    """Times passes of a network on the CPU; torch's random numbers and its number of threads stay as they are."""
    many = training_threads(0)
    one, other = ((precision, threads) for threads in (1, many))
    times = time_arithmetic(make_network, observation, torch.device("cpu"), (one, other))
    return ThreadTimes(many, times[one], times[other])


def time_arithmetic(
    make_network: Callable[[], Network],
    observation: Observation,
    device: torch.device,
    kinds: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], float]:
    """Returns the seconds of a pass of a network for each of the pairs (precision, threads).

    torch's random numbers and its number of threads stay as they are.
    """
    before = torch.get_num_threads()
    try:
        with kept_random_numbers():
            return {
                (precision, threads): _pass_seconds(make_network(), observation, device, precision, threads)
                for precision, threads in kinds
            }
    finally:
        torch.set_num_threads(before)


def is_small(network: Network) -> bool:
    """Returns whether a network is too small to gain from less precision or from more threads."""
    return sum(p.numel() for p in network.parameters()) < _SMALL_NETWORK


def stays_in_fp32(network: Network) -> bool:
    """Returns whether no part of a network may be computed in less precision: a user's own may not tolerate it."""
    return not low_precision_parts(network) or any(isinstance(part, UserTorso) for part in network.modules())


def choose_arithmetic(
    make_network: Callable[[], Network],
    observation: Observation,
    device: torch.device,
    precision: str,
    threads: int,
) -> Arithmetic:
    """Decides the precision if it is "auto", and the number of threads if it is 0 (on the CPU only).

    A user's own module stays in fp32: it may not tolerate another precision. bf16 is chosen only where it is clearly
    faster (`WORTH_BF16`).

    Args:
        make_network: makes an untrained network.
        observation: the input of one update, [N, ...] on `device`.
    """
    network = make_network()
    is_too_small, is_own = is_small(network), stays_in_fp32(network)
    many = training_threads(0)
    few = threads or 1
    threads_matter = device.type == "cpu" and not is_too_small and many > 1
    reasons = []

    @functools.cache
    def seconds(precision: str, threads: int) -> float:
        return _pass_seconds(make_network(), observation, device, precision, threads)

    if precision == "auto" and (is_too_small or is_own):
        precision = "fp32"
        reasons.append(
            f"precision fp32 ({'the network is your own' if is_own else 'too small to gain from less'})"
        )
    elif precision == "auto":
        timed = {name: seconds(name, few) for name in ("fp32", "bf16")}
        precision = "bf16" if timed["fp32"] / timed["bf16"] >= WORTH_BF16 else "fp32"
        measured = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in timed.items())
        measured += "" if precision == "bf16" else f", not {WORTH_BF16:g} times as fast"
        reasons.append(f"precision {precision} (forward and backward: {measured})")
    if threads or not threads_matter:
        return Arithmetic(precision, few, tuple(reasons), threads_matter)
    times = ThreadTimes(many, seconds(precision, 1), seconds(precision, many))
    return Arithmetic(precision, times.best, (*reasons, f"threads {times.best} ({times})"), threads_matter)


def _pass_seconds(
    network: Network, observation: Observation, device: torch.device, precision: str, threads: int
) -> float:
    """Median seconds of a forward and a backward pass: the minimum would leave out what other processes cost."""
    if device.type == "cpu":
        torch.set_num_threads(threads)
    parameters = apply_precision(network, precision, device)
    timings: list[float] = []
    while len(timings) <= _LEAST_PASSES or (len(timings) <= _PASSES and sum(timings[1:]) < _SECONDS):
        begin = time.perf_counter()
        output = network(observation)
        outputs = output if isinstance(output, tuple) else (output,)
        parameters.backward(torch.stack([part.square().mean() for part in outputs]).sum())
        synchronise(device)
        timings.append(time.perf_counter() - begin)
    return median(timings[1:])
