"""Stooke & Abbeel, table 2: hours for 50 million steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from veldt.config.recipe_registry import RECIPES
from veldt.experiments.catalogue.common import ALONE, ATARI, REPLAY_NOT_KEPT, STOOKE
from veldt.experiments.catalogue.verdicts import at_least, comparison, ratio
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Drawing, Exhibit, Table, charts, number
from veldt.experiments.more_learners import Exchange, MeasuredPair
from veldt.experiments.planning.games import env_of_atari_game
from veldt.experiments.results import FinishedRun, Results
from veldt.experiments.speed import speed_while_learning
from veldt.formatting import duration
from veldt.runtime.cores import allowed_cores

_STEPS = 50_000_000
_LEARNERS = (1, 2, 4, 8)
_ASYNC_DQN = "Async. DQN-512"
# Algorithm: the paper recipe, its envs for each learner, and the paper's hours with 1, 2, 4 and 8 GPUs.
_ROWS = {
    "A2C": ("a2c-16", 16, "3.8 · 2.2 · 1.2 · 0.59"),
    "A3C": ("a3c-16", 16, "– · 2.4 · 1.3 · 0.65"),
    "PPO": ("ppo-8x256", 8, "4.4 · 2.6 · 1.5 · 1.1"),
    "APPO": ("appo-8", 8, "– · 2.8 · 1.5 · 0.71"),
    "DQN-512": ("dqn-512", 16, "8.3 · 4.8 · 3.1 · 2.6"),
    "ε-Rainbow-512": ("rainbow-512", 16, "14.1 · 8.6 · 6.6 · 6.4"),
    "CatDQN-2048": ("c51-2048", 16, "10.7 · 6.0 · 2.8 · 1.8"),
    _ASYNC_DQN: ("async-dqn-512", 16, "– · – · 3.9 · –"),
}
_ALONE = {"A3C": "A2C", "APPO": "PPO"}  # what one learner of these is
_REPLAYED = ("DQN-512", "ε-Rainbow-512", "CatDQN-2048", _ASYNC_DQN)
_REPLAY: dict[str, Any] = {"learning_starts": 5_000, "buffer_size": 50_000, **REPLAY_NOT_KEPT}


def _jobs(request: Request) -> list[Training]:
    learners = [count for count in _LEARNERS if count <= len(allowed_cores())]
    jobs = []
    for env in request.envs("ALE/Breakout-v5"):
        for label, (recipe, envs, _) in _ROWS.items():
            for count in learners:
                if count not in _papers(label):
                    continue  # one learner of A3C or APPO is A2C or PPO
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
Runs = dict[str, dict[str, dict[int, FinishedRun]]]  # by environment, algorithm and learners


def _draw(results: Results) -> Exhibit:
    runs: Runs = {}
    for run in results.runs:
        label = run.job.group.partition(",")[0]
        runs.setdefault(run.job.env, {}).setdefault(label, {})[int(run.job.x)] = run
    hours = {
        env: {label: _hours(of_label) for label, of_label in of_env.items()} for env, of_env in runs.items()
    }
    computed = {env: _computed(of_env) for env, of_env in runs.items()}
    rows = [row for env in runs for row in _rows(env, runs[env], computed[env])]
    header = (
        "env",
        "algorithm",
        "steps per second",
        "measured over",
        "hours for 50 M steps here, estimated",
        "the paper's hours with 1 · 2 · 4 · 8 GPUs",
    )
    table = Table(
        "Throughput",
        header,
        rows,
        "Hours are estimated from the speed of a short run, each alone on the machine, each learner with one "
        "training thread. The speed is that from the first update on, and with the start where a run is too short. "
        f"{_how_computed(hours, computed)} "
        f"In the paper DQN-512 by 4 asynchronous learners took {_papers(_ASYNC_DQN)[4]} hours.",
    )
    says = _says(hours)
    return Exhibit(says, [_figure(hours, computed)], [table])


def _hours(runs: Mapping[int, FinishedRun]) -> dict[int, float]:
    return {count: _STEPS / run.speed / 3600.0 for count, run in runs.items()}


def _computed(runs: Mapping[str, Mapping[int, FinishedRun]]) -> Hours:
    """Returns the hours that more than two learners would need, of algorithms with runs of one and of two."""
    hours: Hours = {}
    for label, of_label in runs.items():
        alone = runs.get(_ALONE.get(label, label), {}).get(1)
        if alone is None or 2 not in of_label or math.isnan(busy := alone.metric("system/cores")):
            continue
        pair = MeasuredPair(1.0 / alone.speed, 1.0 / of_label[2].speed, busy, len(allowed_cores()))
        exchange = _exchange(_ROWS[label][0])
        more = [count for count in _LEARNERS if count > 2 and count in _papers(label)]
        hours[label] = {count: _STEPS * pair.step_s(count, exchange) / 3600.0 for count in more}
    return hours


def _exchange(recipe: str) -> Exchange:
    """Returns how learners of a recipe exchange what they have learned."""
    if RECIPES[recipe].system == "asynchronous":
        return "asynchronous"
    return "a batch for each" if RECIPES[recipe].algorithm == "a2c" else "one batch for all"


def _rows(env: str, runs: Mapping[str, Mapping[int, FinishedRun]], computed: Hours) -> list[tuple[str, ...]]:
    """Returns the rows of an environment's table: of each algorithm what was measured, and then what was computed."""
    rows: list[tuple[str, ...]] = []
    for label, of_label in runs.items():
        for count, hours in _hours(of_label).items():
            run = of_label[count]
            rows.append(
                (env, run.job.group, number(run.speed), _measured_over(run), number(hours), _ROWS[label][2])
            )
        for count, hours in computed.get(label, {}).items():
            if count not in of_label:
                speed = number(_STEPS / hours / 3600.0)
                group = f"{label}, {count} learners*"
                rows.append(
                    (env, group, speed, "computed, not measured", f"{number(hours)}*", _ROWS[label][2])
                )
    return rows


def _how_computed(hours: Mapping[str, Hours], computed: Mapping[str, Hours]) -> str:
    """Returns in words how numbers with an asterisk were computed, and how far that is from what was measured."""
    ratios = [
        computed[env][label][count] / measured
        for env, of_env in hours.items()
        for label, of_label in of_env.items()
        for count, measured in of_label.items()
        if count in computed[env].get(label, {})
    ]
    checked = (
        f"Where they were measured too, the computed hours are {ratio(ratios, 'runs')} times the measured ones."
        if ratios
        else "With one and two learners it has their measured speeds; none with more was measured here to check it."
    )
    return (
        "*: computed, not measured, from the speeds with one and two learners and the cores that one keeps busy, for a "
        "machine on which each learner has what each of two has here: its own work takes as long, and the exchange "
        "grows as an all-reduce in a ring (of A3C and APPO not at all), without stragglers or contention. "
        f"{checked}"
    )


def _measured_over(run: FinishedRun) -> str:
    """Returns what the speed of a run is measured over."""
    if learning := speed_while_learning(run.rows):
        return f"{duration(learning.seconds)} of learning"
    return f"{duration(run.seconds)}, with the start"


def _figure(hours: Mapping[str, Hours], computed: Mapping[str, Hours]) -> Drawing:
    titles = [f"{env} (dashed: the paper, on GPUs)" for env in hours]
    figure, axes = charts(len(hours), titles, "learners", "hours for 50 M steps")
    for one, (env, of_env) in zip(axes, hours.items(), strict=False):
        for index, (label, here) in enumerate(of_env.items()):
            papers = _papers(label)
            one.plot(sorted(here), [here[count] for count in sorted(here)], f"C{index}o-", label=label)
            more = {
                count: value for count, value in computed[env].get(label, {}).items() if count not in here
            }
            one.plot(list(more), list(more.values()), f"C{index}*:", markerfacecolor="none")
            one.plot(list(papers), list(papers.values()), f"C{index}.--", alpha=0.6)
        one.set_xscale("log", base=2)
        one.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        one.set_yscale("log")
        one.legend(frameon=False, fontsize=7)
    return Drawing(
        "Hours for 50 M steps",
        "Lines: here, on cores, estimated from short runs. Open stars: computed, not measured (see the table). Dashed: "
        "the paper, on GPUs.",
        figure,
    )


def _papers(label: str) -> dict[int, float]:
    """Returns the paper's hours by number of GPUs."""
    values = zip(_LEARNERS, _ROWS[label][2].split(" · "), strict=True)
    return {count: float(value) for count, value in values if value != "–"}


def _says(hours: Mapping[str, Hours]) -> str:
    here, verdicts = [], {}
    for env, of_env in hours.items():
        alone = {label: of_label[1] for label, of_label in of_env.items() if 1 in of_label}
        phrases = []
        if "A2C" in alone:
            longer = ratio(
                [alone[label] / alone["A2C"] for label in _REPLAYED if label in alone], "algorithms"
            )
            than = f", Q-learning {longer} times as long" if longer.values else ""
            phrases.append(
                f"A2C with one learner needs {number(alone['A2C'])} hours for 50 M steps, estimated{than}"
            )
            verdicts[f"Q-learning on {env}"] = at_least(longer, 1.0)
        faster = ratio([one[1] / one[2] for one in of_env.values() if 1 in one and 2 in one], "algorithms")
        if faster.values:
            phrases.append(f"two learners are {faster} times as fast as one")
            verdicts[f"two learners on {env}"] = at_least(faster, 1.0)
        here += [f"{env}: {', and '.join(phrases)}"] if phrases else []
    papers = [_papers(label) for label in _ROWS]
    ratios = [_papers(label)[1] / _papers("A2C")[1] for label in _REPLAYED if 1 in _papers(label)]
    speedups = [of_label[1] / of_label[2] for of_label in papers if {1, 2} <= of_label.keys()]
    return comparison(
        "; ".join(here),
        f"In the paper Q-learning takes longer than A2C ({min(ratios):.1f} to {max(ratios):.1f} times, on a GPU), and "
        f"two GPUs are faster than one ({min(speedups):.1f} to {max(speedups):.1f} times)",
        verdicts,
    )


THROUGHPUT = Experiment(
    name="throughput",
    source=f"{STOOKE}, table 2",
    shows="Steps per second, and hours for 50 M steps, of all seven algorithms by their number of learners.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        "This machine's cores instead of 1 to 8 GPUs with 5 cores each.",
        "Short runs: the replay buffer is small, and speed is that from the first update on.",
        "More learners than this machine has cores are not trained: their hours are computed from the runs of one and "
        "two learners, and marked with an asterisk; of asynchronous DQN, which the paper has with four learners only, "
        "there is nothing to compute them from.",
    ],
    seeds=(1, 1),
    repeats=False,
    needs=ATARI,
    env_of=env_of_atari_game,
    hours=0.26,
)
