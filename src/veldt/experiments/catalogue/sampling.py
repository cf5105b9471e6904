"""Stooke & Abbeel, figure 1 and table 3: the speed of sampling."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from veldt.experiments.catalogue.common import ATARI, STOOKE
from veldt.experiments.catalogue.verdicts import at_least, comparison, ratio
from veldt.experiments.experiment import Experiment, Measurement, Request
from veldt.experiments.figures import Drawing, Exhibit, Table, charts, number
from veldt.experiments.results import Results
from veldt.formatting import counted
from veldt.runtime.cores import allowed_cores

_SECONDS = 2.0
# Rows of `veldt bench sampling`, with the label of each line.
_LINES = {
    "sampling": "sampling",
    "simulate, network-ready, no inference": "simulation only",
    "inference alone": "inference only",
}
_LIMIT = "harmonic limit"
_FREE, _BARRIER = "free", "a barrier every 5 steps"
_AT_ONCE, _WAIT = "mid-batch", "wait"
# Table 3: steps per second by simulators per core, of all the GPUs of a DGX-1, in its 32 processes.
_PAPER: dict[str, dict[float, float]] = {
    _BARRIER: {2: 29_600, 4: 33_000, 8: 35_700, 16: 35_800},
    _FREE: {2: 31_900, 4: 34_700, 8: 36_700, 16: 38_400},
}
_BARRIER_KEEPS = 0.93  # 29.6 / 31.9 and 35.8 / 38.4; 0.95 and 0.97 at its other numbers of simulators
# Lines of one chart that are compared, the name of what differs, and what the first must have of the second's speed.
_COMPARED = (
    (_BARRIER, _FREE, "the barrier", _BARRIER_KEEPS),
    (f"resets {_WAIT}", f"resets {_AT_ONCE}", "waiting resets", 1.0),
)
_SAMPLERS = "{} samplers, with a core each"
Lines = dict[str, dict[str, dict[float, float]]]  # steps per second by chart, line and simulators per process


def _jobs(request: Request) -> list[Measurement]:
    counts = (2, 4, 8, 16) if request.is_small else (1, 2, 4, 8, 16, 32)
    most = len(allowed_cores())
    return [
        _job(env, group, count, processes, flags)
        for env in request.envs("ALE/Breakout-v5")
        for group, processes, flags in _arrangements(most)
        for count in counts
        if count * processes > 1 or "on" not in flags  # a single simulator makes no two groups
    ]


def _arrangements(most: int) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yields arrangements: its name ("chart: line" if it is one line of a chart), env processes, flags of `bench`."""
    for processes in sorted({1, most}):
        for name, alternate in (("alternating", "on"), ("one group", "off")):
            flags = ("--processes", str(processes), "--alternate", alternate)
            yield f"{counted(processes, 'process', 'processes')}, {name}", processes, flags
    training = f"training by A2C in {counted(most, 'process', 'processes')}"
    for resets in (_AT_ONCE, _WAIT):
        yield f"{training}: resets {resets}", most, ("--processes", str(most), "--resets", resets)
    if most > 1:
        for line, more in ((_FREE, ()), (_BARRIER, ("--barrier",))):
            yield f"{_SAMPLERS.format(most)}: {line}", 1, ("--processes", "0", "--samplers", str(most), *more)


def _job(env: str, group: str, count: int, processes: int, flags: tuple[str, ...]) -> Measurement:
    what = "training" if "--resets" in flags else "sampling"  # waiting envs are reset while the learner works
    words = ("bench", what, "--recipe", "a2c", "--env", env, *flags)
    sizes = ("--num-envs", str(count * processes), "--seconds", f"{_SECONDS}", "--json")
    return Measurement(group=group, words=(*words, *sizes), seconds=4 * _SECONDS + 5.0, x=count, panel=env)


def _draw(results: Results) -> Exhibit:
    lines, rows, best = _lines(results), list[tuple[str, ...]](), 0.0
    figure, axes = charts(len(lines), list(lines), "simulators per process", "steps per second and process")
    for one, (chart, of_chart) in zip(axes, lines.items(), strict=True):
        processes = int(re.findall(r"(\d+) (?:process|sampler)", chart)[0])
        for label, points in of_chart.items():
            x = sorted(points)
            style = "--" if label in (*_LINES.values(), _LIMIT) and label != "sampling" else "-"
            one.plot(x, [points[count] / processes for count in x], style, marker=".", label=label)
            limits = of_chart.get(_LIMIT, {}) if label == "sampling" else {}
            shares = [f"{points[count] / limits[count]:.2f}" if count in limits else "" for count in x]
            rows += [
                (chart, label, f"{count:g}", number(points[count]), share)
                for count, share in zip(x, shares, strict=True)
            ]
            best = max(best, *points.values()) if style == "-" else best
        ticks = sorted({count for points in of_chart.values() for count in points})
        one.set_xscale("log", base=2)
        one.set_xticks(ticks, [f"{count:g}" for count in ticks])
        one.set_ylim(bottom=0)
        one.legend(frameon=False, fontsize=7)
    header = (
        "arrangement",
        "line",
        "simulators per process",
        "steps per second, of all processes",
        "share of the limit",
    )
    drawing = Drawing("Sampling speed", "Agent steps per second and process.", figure)
    table = Table("Steps per second", header, rows)
    return Exhibit(_says(lines, best), [drawing], [*_barrier_tables(lines), table])


def _barrier_tables(lines: Lines) -> list[Table]:
    """Returns a table of what a barrier leaves of the speed of samplers, beside the paper's; none without samplers."""
    speeds = {chart: one for chart, one in lines.items() if _FREE in one and _BARRIER in one}
    if not speeds:
        return []
    rows = [
        (
            chart,
            f"{x:g}",
            number(one[_FREE][x]),
            number(one[_BARRIER][x]),
            f"{one[_BARRIER][x] / one[_FREE][x]:.2f}",
        )
        for chart, one in {**speeds, "the paper, 32 samplers on 8 GPUs": _PAPER}.items()
        for x in sorted(one[_FREE].keys() & one[_BARRIER].keys())
    ]
    header = (
        "samplers",
        "simulators per sampler",
        "steps per second, free",
        _BARRIER,
        "share of the free speed",
    )
    caption = (
        "Steps per second of all samplers. The paper's: table 3, on a DGX-1 with A3C-Net and Breakout: only the last "
        "column can be compared."
    )
    return [Table("Samplers with and without a barrier", header, rows, caption)]


def _lines(results: Results) -> Lines:
    lines: Lines = {}
    several = len({measured.job.panel for measured in results.measured}) > 1
    for measured in results.measured:
        chart, _, label = measured.job.group.partition(": ")
        metrics, x = measured.values["metrics"], measured.job.x
        if several:
            chart = f"{measured.job.panel}, {chart}"
        if label:
            speeds = {label: metrics["training" if "training" in metrics else "samplers together"]["sps"]}
        else:
            speeds = {line: metrics[row]["sps"] for row, line in _LINES.items()}
            speeds[_LIMIT] = 1.0 / (1.0 / speeds["simulation only"] + 1.0 / speeds["inference only"])
        for line, speed in speeds.items():
            lines.setdefault(chart, {}).setdefault(line, {})[x] = speed
    return lines


def _says(lines: Lines, best: float) -> str:
    here, verdicts = [], {}
    limited = [of_chart for of_chart in lines.values() if of_chart.get(_LIMIT)]
    if limited:
        shares = [
            of_chart["sampling"][x] / limit for of_chart in limited for x, limit in of_chart[_LIMIT].items()
        ]
        gains = [speed[max(speed)] / speed[min(speed)] for speed in (one["sampling"] for one in limited)]
        most = max(x for of_chart in limited for x in of_chart["sampling"])
        gain = ratio(gains, "arrangements")
        here.append(
            f"Sampling reaches up to {number(best)} steps per second, and {number(float(np.mean(shares)))} of the "
            "harmonic limit in the mean, which is the speed of simulation and inference one after the other; with "
            f"{most:g} simulators per process it is {gain} times as fast as with the fewest"
        )
        verdicts["simulators per process"] = at_least(gain, 1.0)
    for chart, of_chart in lines.items():
        for line, other, name, least in _COMPARED:
            common = sorted(of_chart.get(line, {}).keys() & of_chart.get(other, {}).keys())
            if common:
                speed = ratio(
                    [of_chart[line][x] / of_chart[other][x] for x in common], "numbers of simulators"
                )
                here.append(f"In {chart}, '{line}' is {speed} times as fast as '{other}'")
                verdicts[f"{name} in {chart}"] = at_least(speed, least)
    return comparison(
        ". ".join(here),
        "The paper finds that more simulators per process bring more speed until the time of inference is hidden, that "
        f"a barrier leaves {_BARRIER_KEEPS} or more of the speed without, and that resets which wait for the "
        "learner avoid slowdowns (here: they are not slower)",
        verdicts,
    )


SAMPLING = Experiment(
    name="sampling",
    source=f"{STOOKE}, figure 1 and table 3",
    shows="Steps per second by simulators per process, in alternating groups or one, beside the limits.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        "Inference on this machine's cores instead of a GPU: simulation and inference share the cores.",
        "Samplers that run free of each other, or wait for each other at a barrier, have a core each and no GPU.",
        "Not drawn: spare simulators, which veldt does not have. By the model in docs/benchmarks.md (Resets) they "
        "would gain at most 1% on Atari over resets that wait for the learner.",
    ],
    seeds=(1, 1),
    repeats=False,
    needs=ATARI,
    hours=0.12,
)
