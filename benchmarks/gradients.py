"""Ways for gradients to travel: the central store against a memory copy, and two learners against one.

    python benchmarks/gradients.py store learners [--seconds 8] [--rounds 3]

`store`: eight processes bring gradients of 4.3 M parameters to a store of three chunks by RMSProp, flat out, and with a
network's gradient computed before each, as learners do; beside them the same eight copy as many bytes from memory to
memory. `learners`: SPS of A2C on Breakout by two synchronous learners and by one, on the same cores.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping

import gradient_makers
import numpy as np
import torch
from running import sps_of_learning, train

from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.runtime.processes import Child, forkserver

LEARNERS, CHUNKS = 8, 3
_DEADLINE_S = 120.0


def store(seconds: float) -> None:
    parameters, rule = gradient_makers.network()[1].fp32_params, gradient_makers.RULE
    initial: Mapping[str, np.ndarray] = {
        name: value.numpy() for name, value in {PARAMETERS: parameters, **rule.state(parameters)}.items()
    }
    copies = sum(_rates("copies", seconds, None)[0])
    print(f"{len(parameters) / 1e6:.1f} M parameters, {LEARNERS} processes, {CHUNKS} chunks")
    print(f"memory copies of an update's bytes: {copies:,.1f}/s")
    for what, name in (("updates", "flat out"), ("gradients", "each after a gradient of its own")):
        edge = CentralStore(CentralStoreSpec(initial, CHUNKS, _DEADLINE_S), forkserver(["torch"]))
        rates, blocked, updating = _rates(what, seconds, edge)
        line = f"{name}: {sum(rates):,.1f} updates/s, {sum(rates) / copies:.2f} of the copies; "
        print(line + f"blocked {sum(blocked):.1f} s, updating {sum(updating):.1f} s", end="")
        print(f": {sum(blocked) / sum(updating):.2f}", flush=True)


def _rates(
    what: str, seconds: float, edge: CentralStore | None
) -> tuple[list[float], list[float], list[float]]:
    """Of each process, how often a second, and its seconds blocked and updating."""
    context = forkserver(["torch"])
    work = getattr(gradient_makers, what)
    children = [Child(context, f"maker {rank}", work, seconds, edge, rank) for rank in range(LEARNERS)]
    try:
        for child in children:
            assert child.receive(_DEADLINE_S) == b"ready"
        for child in children:
            child.pipe.send_bytes(b"go")
        said = [child.receive(_DEADLINE_S) for child in children]
    finally:
        for child in children:
            child.kill()
    found = [np.frombuffer(one) for one in said if one is not None]
    return tuple([one[column] for one in found] for column in range(3))  # type: ignore[return-value]


def learners(rounds: int, seconds: float) -> None:
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, rates in found.items():
            steps = str(round(seconds * 4000))
            flags = ("--env", "ALE/Breakout-v5", "--steps", steps, "--learners", str(count))
            rates.append(sps_of_learning(train("a2c", *flags, "--evaluate-every", "0")["rows"], warmup=50))
    one, two = (statistics.median(rates) for rates in found.values())
    ratios = [after / before for before, after in zip(found[1], found[2], strict=True)]
    each = " · ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"a2c, Breakout: {two:,.0f} SPS by two learners, {one:,.0f} by one: ", end="")
    print(f"{statistics.median(ratios):.2f} ({each})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", choices=("store", "learners"))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    for what in asked.what:
        if what == "store":
            store(asked.seconds)
        else:
            learners(asked.rounds, asked.seconds)
    print(f"in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
