"""Training on Atari beside a process that only computes, as a share of the speed without it.

    python benchmarks/neighbours.py [--seconds 75] [--rounds 3]

Each round trains every recipe three times, in turn: without a neighbour, beside one that is there from the start, and
beside one that comes after a third of the time. The last third counts; then the run is interrupted. veldt
chooses the number of torch threads. The table has medians over the rounds.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from spinning import neighbour

from veldt.tracking.metrics import read_metrics

RECIPES = {
    "a2c": "",
    "ppo": "--num-envs 16 --batch-size 1024",
    "dqn": "--learning-starts 1000 --epsilon-steps 1000 --buffer-size 50000 --evaluate-every 0",
}
CASES = ("quiet", "from the start", "later")


def sps(recipe: str, case: str, seconds: float) -> float:
    """Steps per second of the last third of `seconds` of training, from the first row of metrics on."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        flags = f"--env ALE/Breakout-v5 --log-every 1 {RECIPES[recipe]}".split()
        command = [sys.executable, "-m", "veldt", "train", recipe, "--run-dir", str(run), *flags]
        with (
            neighbour(case == "from the start"),
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
        ):
            while not (rows := read_metrics(run)):
                time.sleep(0.1)
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)} ended with code {process.returncode}")
            time.sleep(seconds / 3)
            with neighbour(case == "later"):
                time.sleep(seconds * 2 / 3)
                rows = read_metrics(run)
            process.send_signal(signal.SIGINT)
    counted = [row for row in rows if row["seconds"] >= rows[-1]["seconds"] - seconds / 3]
    return (counted[-1]["step"] - counted[0]["step"]) / (counted[-1]["seconds"] - counted[0]["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for recipe in args.recipes:
            for case in CASES:
                measured[recipe, case].append(sps(recipe, case, args.seconds))
                print(f"{recipe}, {case}: {measured[recipe, case][-1]:,.0f}", file=sys.stderr, flush=True)
    print(
        "| recipe | quiet, SPS | neighbour from the start | neighbour that comes later |\n| --- | --- | --- | --- |"
    )
    for recipe in args.recipes:
        quiet, *beside = (statistics.median(measured[recipe, case]) for case in CASES)
        cells = " | ".join(f"{one:,.0f} · {one / quiet:.2f}" for one in beside)
        print(f"| {recipe} | {quiet:,.0f} | {cells} |")


if __name__ == "__main__":
    main()
