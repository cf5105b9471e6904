"""Stooke & Abbeel, table 2: hours for 50 million steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veldt.experiments.catalogue.common import ALONE, ATARI, STOOKE
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Drawing, Exhibit, Table, charts, number
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
_REPLAYED = ("DQN-512", "ε-Rainbow-512", "CatDQN-2048")
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
                if label in _REPLAYED:
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


Hours = dict[str, dict[int, float]]  # hours for 50 M steps by algorithm and learners


def _draw(results: Results) -> Exhibit:
    hours: dict[str, Hours] = {}
    rows = []
    for run in results.runs:
        label, count = run.job.group.partition(",")[0], int(run.job.x)
        here = _STEPS / run.speed / 3600.0
        hours.setdefault(run.job.env, {}).setdefault(label, {})[count] = here
        rows.append((run.job.env, run.job.group, number(run.speed), number(here), _ROWS[label][2]))
    header = (
        "env",
        "algorithm",
        "steps per second",
        "hours for 50 M steps here",
        "the paper's hours with 1 · 2 · 4 · 8 GPUs",
    )
    table = Table(
        "Throughput",
        header,
        rows,
        "From the first update on; each run alone on the machine, each learner with one training thread.",
    )
    says = " ".join(f"{env}: {_says(of_env)}" for env, of_env in hours.items()) or "Nothing is measured yet."
    return Exhibit(says, [_figure(hours)], [table])


def _figure(hours: Mapping[str, Hours]) -> Drawing:
    titles = [f"{env} (dashed: the paper, on GPUs)" for env in hours]
    figure, axes = charts(len(hours), titles, "learners", "hours for 50 M steps")
    for one, of_env in zip(axes, hours.values(), strict=False):
        for index, (label, here) in enumerate(of_env.items()):
            papers = _papers(label)
            one.plot(sorted(here), [here[count] for count in sorted(here)], f"C{index}o-", label=label)
            one.plot(list(papers), list(papers.values()), f"C{index}.--", alpha=0.6)
        one.set_xscale("log", base=2)
        one.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        one.set_yscale("log")
        one.legend(frameon=False, fontsize=7)
    return Drawing("Hours for 50 M steps", "Lines: here, on cores. Dashed: the paper, on GPUs.", figure)


def _papers(label: str) -> dict[int, float]:
    """Returns the paper's hours by number of GPUs."""
    values = zip((1, 2, 4, 8), _ROWS[label][2].split(" · "), strict=True)
    return {count: float(value) for count, value in values if value != "–"}


def _says(hours: Hours) -> str:
    alone = {label: of_label[1] for label, of_label in hours.items() if 1 in of_label}
    if "A2C" not in alone:
        return "A2C with one learner, to which the others are compared, is not measured yet."
    ratios = {label: alone[label] / alone["A2C"] for label in alone if label in _REPLAYED}
    papers = [_papers(label)[1] / _papers("A2C")[1] for label in _REPLAYED]
    said = f"With one learner A2C needs {number(alone['A2C'])} hours for 50 M steps"
    if ratios:
        said += (
            f", and Q-learning {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times as long (in the paper "
            f"{min(papers):.1f} to {max(papers):.1f}, on a GPU), because each step is learned from 8 times"
        )
    both = [of_label for of_label in hours.values() if 1 in of_label and 2 in of_label]
    if both:
        faster = [of_label[1] / of_label[2] for of_label in both]
        theirs = [_papers(label)[1] / _papers(label)[2] for label in hours if {1, 2} <= _papers(label).keys()]
        said += (
            f". Two learners are {min(faster):.1f} to {max(faster):.1f} times as fast as one (in the paper "
            f"{min(theirs):.1f} to {max(theirs):.1f})"
        )
    return said + "."


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
    hours=0.26,
)
