"""Does it learn? Trains recipes over seeds and writes the curves that docs/benchmarks.md shows.

    python benchmarks/learning.py small                 # CartPole-v1 and Acrobot-v1, both recipes, 5 seeds: minutes
    python benchmarks/learning.py scale precision       # 8, 32, 128 simulators; bf16 against fp32: 75 minutes
    python benchmarks/learning.py plot OUT RUN [RUN ...] # a picture of runs that exist

Each experiment writes runs under --runs, a table to standard output, and a picture of all its runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Trial:
    """One training: `label` groups trials that differ by seed only."""

    label: str
    recipe: str
    env: str
    seed: int
    flags: Sequence[str] = field(default=())

    @property
    def name(self) -> str:
        return f"{self.label}-{self.seed}".replace("/", "-").replace(" ", "-")


_ATARI = ("--steps", "1000000", "--threads", "1")


def small() -> list[Trial]:
    """Classic control, to the score at which it counts as solved."""
    solved = {"CartPole-v1": "475", "Acrobot-v1": "-100"}
    return [
        Trial(
            f"{recipe} {env}", recipe, env, seed, ("--until", score, "--threads", "1", "--log-every", "0.2")
        )
        for recipe in ("ppo", "a2c")
        for env, score in solved.items()
        for seed in range(1, 6)
    ]


def scale() -> list[Trial]:
    """Figure 2 of Stooke & Abbeel in small: the same steps by 8, 32 and 128 simulators."""
    return [
        Trial(
            f"a2c Breakout {count}", "a2c", "ALE/Breakout-v5", seed, ("--num-simulators", str(count), *_ATARI)
        )
        for seed in (1, 2)
        for count in (8, 32, 128)
    ]


def precision() -> list[Trial]:
    """bf16 against fp32 on the same seeds."""
    return [
        Trial(f"a2c Breakout {name}", "a2c", "ALE/Breakout-v5", seed, ("--precision", name, *_ATARI))
        for seed in (1, 2)
        for name in ("bf16", "fp32")
    ]


EXPERIMENTS = {"small": small, "scale": scale, "precision": precision}


def run(trial: Trial, root: Path) -> Path:
    """Trains, unless the run is there already."""
    path = root / trial.name
    if not (path / "summary.json").exists():
        command = [sys.executable, "-m", "veldt", "train", trial.recipe, "--env", trial.env]
        command += ["--seed", str(trial.seed), "--run-dir", str(path), *trial.flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def plot(panels: dict[str, dict[str, list[Path]]], out: Path) -> None:
    """Mean return of the last 100 games over agent steps: a panel an environment, a colour a group, a line a run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(
        1, len(panels), figsize=(5.0 * len(panels) + 1.0, 3.4), layout="constrained", squeeze=False
    )
    for axes, (title, groups) in zip(all_axes[0], panels.items(), strict=True):
        for index, (label, paths) in enumerate(groups.items()):
            for number, path in enumerate(paths):
                rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
                points = [
                    (row["step"], row["return_mean_100"])
                    for row in rows
                    if row["return_mean_100"] is not None
                ]
                axes.plot(
                    *zip(*points, strict=True),
                    color=f"C{index}",
                    alpha=0.8,
                    linewidth=1.2,
                    label=None if number else label,
                )
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("agent steps")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    all_axes[0][0].set_ylabel("mean raw return, last 100 games")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="+", help=f"some of {', '.join(EXPERIMENTS)}; or plot OUT RUN [RUN ...]"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"), help="where the runs are made")
    parser.add_argument("--pictures", type=Path, default=Path("docs/images"), help="where the pictures go")
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="runs side by side: 1 to time them"
    )
    asked = parser.parse_args()
    if asked.what[0] == "plot":
        panels: dict[str, dict[str, list[Path]]] = {}
        for path in map(Path, asked.what[2:]):
            env = json.loads((path / "config.json").read_text())["resolved"]["env"]
            panels.setdefault(env, {})[path.name] = [path]
        plot(panels, Path(asked.what[1]))
        return
    for name in asked.what:
        if name not in EXPERIMENTS:
            parser.error(f"no experiment '{name}': known are {', '.join(EXPERIMENTS)}")
        groups: dict[str, dict[str, list[Path]]] = {}
        print(
            "| what | seed | stopped by | steps | seconds | mean return of 100 games |\n" + "| --- " * 6 + "|"
        )
        trials = EXPERIMENTS[name]()
        with ThreadPoolExecutor(asked.at_once) as pool:
            paths = list(pool.map(lambda trial: run(trial, asked.runs), trials))
        for trial, path in zip(trials, paths, strict=True):
            groups.setdefault(trial.env, {}).setdefault(trial.label, []).append(path)
            summary = json.loads((path / "summary.json").read_text())
            reason = "score" if summary["solved_at_seconds"] is not None else "steps"
            figures = f"{summary['steps']:,} | {summary['seconds']:.1f} | {summary['return_mean_100']:,.1f}"
            print(f"| {trial.label} | {trial.seed} | {reason} | {figures} |", flush=True)
        plot(groups, asked.pictures / f"learning-{name}.png")


if __name__ == "__main__":
    main()
