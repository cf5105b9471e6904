"""The same graph of roles as processes of this machine and as Ray actors: SPS and updates, turn about.

    python benchmarks/runtimes.py --rounds 3

Figures are of the time after a third of the updates, so that neither starting nor filling the replay buffer counts.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from running import train

RUNS = {
    "apex-dqn CartPole-v1": ["apex-dqn", "--env", "CartPole-v1", "--steps", "60000"],
    "impala CartPole-v1": ["impala", "--env", "CartPole-v1", "--steps", "150000", "--num-envs", "16"],
    "apex-dqn Breakout": [
        *["apex-dqn", "--env", "ALE/Breakout-v5", "--steps", "12000", "--learning-starts", "2000"],
        *["--num-envs", "16", "--buffer-size", "20000", "--batch-size", "64", "--training-intensity", "1"],
    ],
}
COMMON = ["--actors", "2", "--seed", "1", "--log-every", "0.5", "--evaluator-share", "0"]


def rates(arguments: list[str], *more: str) -> tuple[float, float, float]:
    """Steps and updates a second, and seconds of the whole process."""
    result: dict[str, Any] = train(*arguments, *COMMON, *more)
    rows = result["rows"]
    first = next(row for row in rows if row["train/updates"] >= rows[-1]["train/updates"] / 3)
    seconds = rows[-1]["seconds"] - first["seconds"]
    counts = [(rows[-1][name] - first[name]) / seconds for name in ("step", "train/updates")]
    return counts[0], counts[1], result["process_seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turn; medians are shown")
    parser.add_argument("--only", default="", help="part of the name of what is measured")
    arguments = parser.parse_args()
    print(
        "| run | runtime | SPS | updates/s | of local | seconds in all |\n| --- | --- | --- | --- | --- | --- |"
    )
    for name, run in RUNS.items():
        if arguments.only not in name:
            continue
        taken: dict[str, list[tuple[float, float, float]]] = {"local": [], "Ray": []}
        for _ in range(arguments.rounds):
            taken["local"].append(rates(run))
            taken["Ray"].append(rates(run, "--cluster", "local"))
        steps = {runtime: statistics.median(one[0] for one in found) for runtime, found in taken.items()}
        for runtime, found in taken.items():
            updates, seconds = (statistics.median(one[place] for one in found) for place in (1, 2))
            share = steps[runtime] / steps["local"]
            print(
                f"| {name} | {runtime} | {steps[runtime]:,.0f} | {updates:,.1f} | {share:.2f} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
