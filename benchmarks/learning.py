"""Does it learn? Trains recipes over seeds and writes the curves that docs/benchmarks.md shows.

    python benchmarks/learning.py small                 # CartPole-v1 and Acrobot-v1, both recipes, 5 seeds: minutes
    python benchmarks/learning.py scale precision       # 8, 32, 128 envs; bf16 against fp32: 75 minutes
    python benchmarks/learning.py --seeds 1 q_scale     # only the first seed of each
    python benchmarks/learning.py plot OUT RUN [RUN ...] # a picture of runs that exist

The experiments are in `experiments.py`: each writes runs under --runs, a table to standard output, and a picture of all
its runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from experiments import EXPERIMENTS, Trial

HERE = Path(__file__).parent.resolve()


def run(trial: Trial, root: Path) -> Path:
    """Trains, unless the run is there already; one that was interrupted continues."""
    path = root / trial.name
    if not _is_whole(path):
        command = [sys.executable, "-m", "veldt"]
        if path.exists():
            command += ["resume", str(path)]
        else:
            command += ["train", trial.recipe, "--env", trial.env, "--seed", str(trial.seed)]
            command += ["--run-dir", str(path), *trial.flags]
        # Environments of this directory are named as modules.
        paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environ = os.environ | {"PYTHONPATH": paths}
        made = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ
        )
        if made.returncode:
            sys.exit(f"{shlex.join(command)} failed:\n{made.stderr[-2000:]}")
    return path


def _is_whole(path: Path) -> bool:
    """Whether a run has come to its end."""
    summary = path / "summary.json"
    return summary.exists() and json.loads(summary.read_text())["reason"] != "interrupted"


def plot(panels: dict[str, dict[str, list[Path]]], out: Path) -> None:
    """Mean return of the last 100 episodes over agent steps: panels by name, a colour a group, a line a run."""
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
                    (row["step"], row["rollout/ep_return_mean"])
                    for row in rows
                    if "rollout/ep_return_mean" in row
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
    all_axes[0][0].set_ylabel("mean raw return, last 100 episodes")
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
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds of each trial")
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
            "| what | seed | stopped by | steps | seconds | mean return of 100 episodes |\n"
            + "| --- " * 6
            + "|"
        )
        trials = [trial for trial in EXPERIMENTS[name]() if asked.seeds is None or trial.seed <= asked.seeds]
        with ThreadPoolExecutor(asked.at_once) as pool:
            paths = list(pool.map(lambda trial: run(trial, asked.runs), trials))
        for trial, path in zip(trials, paths, strict=True):
            groups.setdefault(trial.panel or trial.env, {}).setdefault(trial.label, []).append(path)
            summary = json.loads((path / "summary.json").read_text())
            reason = "score" if summary["solved_at_seconds"] is not None else "steps"
            metrics = f"{summary['steps']:,} | {summary['seconds']:.1f} | {summary['ep_return_mean']:,.1f}"
            print(f"| {trial.label} | {trial.seed} | {reason} | {metrics} |", flush=True)
        plot(groups, asked.pictures / f"learning-{name}.png")


if __name__ == "__main__":
    main()
