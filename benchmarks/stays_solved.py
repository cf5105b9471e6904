"""Does a recipe stay solved? Trains on past the moment of success, and prints a row of docs/benchmarks.md for each.

    python benchmarks/stays_solved.py ppo dqn            # CartPole-v1, 300,000 steps, seeds 1 to 5
    python benchmarks/stays_solved.py --at-once 2 c51    # runs side by side
    python benchmarks/stays_solved.py --env Acrobot-v1 --score -100 ppo

A recipe has solved the environment at the step where the mean return of its last 100 episodes reaches the score; what
counts is how low that mean falls afterwards, and the greedy policy at the end. Runs that have ended are not trained
again, and interrupted ones are continued.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import veldt

_EPISODES = 100  # of the mean, as in `--until`
_EVALUATED = 30


@dataclass(frozen=True)
class Course:
    """When a run had solved its environment (None: never), the lowest mean since, and the greedy return at the end."""

    solved_at: int | None
    lowest: float
    greedy: float


def train(recipe: str, env: str, steps: int, seed: int, root: Path) -> Path:
    """Returns the directory of the run, trained to its end; SystemExit with the error if it fails."""
    path = root / f"{recipe}-{env}-{steps}-{seed}"
    if not path.exists():
        command = [sys.executable, "-m", "veldt", "train", recipe, "--env", env, "--steps", str(steps)]
        command += ["--seed", str(seed), "--run-dir", str(path), "--evaluate-every", "0"]
        made = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if made.returncode:
            sys.exit(made.stderr[-2000:])
    return path


def course(path: Path, score: float) -> Course:
    """Reads a run's episodes, in their order, and evaluates its last checkpoint."""
    recent: deque[float] = deque(maxlen=_EPISODES)
    solved_at, lowest = None, float("inf")
    for line in (path / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        if not episode.get("counts", True):  # of an env that explores much more than others
            continue
        recent.append(episode["score"])
        mean = sum(recent) / len(recent)
        if solved_at is None and len(recent) == _EPISODES and mean >= score:
            solved_at = episode["step"]
        if solved_at is not None:
            lowest = min(lowest, mean)
    return Course(solved_at, lowest, veldt.evaluate(path, episodes=_EVALUATED).mean)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument(
        "--score", type=float, default=475.0, help="at which the environment counts as solved"
    )
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="runs side by side")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/stays-solved"), help="where the runs are made"
    )
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    print("| recipe | solved after steps, by seed | lowest afterwards | greedy |\n" + "| --- " * 4 + "|")
    for recipe in asked.recipes:
        with ThreadPoolExecutor(asked.at_once) as pool:
            jobs = [
                pool.submit(train, recipe, asked.env, asked.steps, seed, asked.runs)
                for seed in range(1, asked.seeds + 1)
            ]
            courses = [course(job.result(), asked.score) for job in jobs]
        cells = (
            " · ".join("never" if one.solved_at is None else f"{one.solved_at:,}" for one in courses),
            " · ".join("–" if one.solved_at is None else f"{one.lowest:.0f}" for one in courses),
            " · ".join(f"{one.greedy:.0f}" for one in courses),
        )
        print(f"| `{recipe}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
