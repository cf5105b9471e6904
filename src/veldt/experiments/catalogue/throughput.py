"""Stooke & Abbeel, table 2: hours for 50 million steps."""

from __future__ import annotations

from typing import Any

from veldt.experiments.catalogue.common import ALONE, ATARI, STOOKE
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, number
from veldt.experiments.results import Results
from veldt.runtime.cores import allowed_cores

_STEPS = 50_000_000
# Algorithm: the paper recipe, its envs for each learner, and the paper's hours with 1, 2, 4 and 8 GPUs.
_ROWS = {
    "A2C": ("a2c-16", 16, "3.8 · 2.2 · 1.2 · 0.59"),
    "A3C": ("a3c-16", 16, "– · 2.4 · 1.3 · 0.65"),
    "PPO": ("ppo-8x256", 8, "4.4 · 2.6 · 1.5 · 1.1"),
    "APPO": ("appo-8", 8, "– · 2.8 · 1.5 · 0.71"),
    "DQN-512": ("dqn-512", 16, "8.3 · 4.8 · 3.1 · 2.6"),
    "ε-Rainbow-512": ("rainbow-512", 16, "14.1 · 8.6 · 6.6 · 6.4"),
    "CatDQN-2048": ("c51-2048", 16, "10.7 · 6.0 · 2.8 · 1.8"),
}
_REPLAY: dict[str, Any] = {"learning_starts": 5_000, "buffer_size": 50_000, "checkpoint_replay": "none"}


def _jobs(request: Request) -> list[Training]:
    learners = [count for count in (1, 2, 4, 8) if count <= len(allowed_cores())]
    jobs = []
    for env in request.envs("ALE/Breakout-v5"):
        for label, (recipe, envs, _) in _ROWS.items():
            for count in learners:
                if label in ("A3C", "APPO") and count == 1:
                    continue  # of one learner, they are A2C and PPO
                sizes: dict[str, Any] = {"learners": count, "num_envs": envs * count}
                if label.endswith(("-512", "-2048")):
                    sizes |= _REPLAY
                steps = (16_000 if request.is_small else 200_000) * count
                jobs.append(
                    Training(
                        group=f"{label}, {count} learners" if count > 1 else f"{label}, 1 learner",
                        recipe=recipe,
                        env=env,
                        seed=1,
                        settings={**ALONE, **sizes, "steps": steps},
                        x=count,
                        cores=0,
                    )
                )
    return jobs


def _draw(results: Results) -> Exhibit:
    rows = []
    for run in results.runs:
        papers = _ROWS[run.job.group.partition(",")[0]][2]
        rows.append((run.job.group, number(run.speed), number(_STEPS / run.speed / 3600.0), papers))
    header = (
        "algorithm",
        "steps per second",
        "hours for 50 M steps here",
        "the paper's hours with 1 · 2 · 4 · 8 GPUs",
    )
    says = (
        f"Measured in runs of {results.request.scale} size on this machine. In the paper Q-learning takes two to four "
        "times as long as policy gradients on one GPU, because each step is learned from 8 times."
    )
    return Exhibit(
        says,
        tables=[
            Table(
                "Throughput",
                header,
                rows,
                "From the first update on; each run alone on the machine, each learner with one training thread.",
            )
        ],
    )


THROUGHPUT = Experiment(
    name="throughput",
    source=f"{STOOKE}, tables 2 and 3",
    shows="Steps per second, and hours for 50 M steps, of all seven algorithms by their number of learners.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        f"{len(allowed_cores())} cores instead of 1 to 8 GPUs with 5 cores each.",
        "Short runs: the replay buffer is small, and speed is that from the first update on.",
    ],
    seeds=(1, 1),
    repeats=False,
    needs=ATARI,
)
