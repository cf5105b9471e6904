"""A2C on Breakout by one and two torch threads, with and without a busy neighbour, by how long OpenMP's threads spin.

    python benchmarks/spinning.py [--steps 12000] [--rounds 3]

Each round runs every row once, in turn, so that all rows meet the same machine; the table has each row's median and its
lowest and highest SPS. The neighbour is one process that only computes. 300,000 is GNU OpenMP's own default.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

from running import train

ROWS = [
    ("2", "300000"),
    ("2", "20000"),
    ("2", "10000"),
    ("2", "2000"),
    ("1", "300000"),
]  # threads, spin count


@contextlib.contextmanager
def neighbour(busy: bool) -> Iterator[None]:
    """One more process that takes all of a core that it can get."""
    if not busy:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    sps: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for threads, spin_count in ROWS:
            for busy in (False, True):
                os.environ["GOMP_SPINCOUNT"] = spin_count
                with neighbour(busy):
                    run = train(
                        "a2c", "--env", "ALE/Breakout-v5", "--threads", threads, "--steps", str(args.steps)
                    )
                sps[threads, spin_count, busy].append(run["steps_per_second"])
    print(
        "| torch threads | GOMP_SPINCOUNT | quiet, SPS | beside a busy neighbour, SPS |\n| --- | --- | --- | --- |"
    )
    for threads, spin_count in ROWS:
        cells = (sps[threads, spin_count, busy] for busy in (False, True))
        shown = (f"{statistics.median(cell):,.0f} ({min(cell):,.0f} to {max(cell):,.0f})" for cell in cells)
        print(f"| {threads} | {int(spin_count):,} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
