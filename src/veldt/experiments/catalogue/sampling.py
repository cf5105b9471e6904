"""Stooke & Abbeel, figure 1 and table 3: the speed of sampling."""

from __future__ import annotations

import numpy as np

from veldt.experiments.catalogue.common import ATARI, STOOKE
from veldt.experiments.experiment import Experiment, Measurement, Request
from veldt.experiments.figures import Drawing, Exhibit, Table, charts, number
from veldt.experiments.results import Results
from veldt.runtime.cores import allowed_cores

_SECONDS = 2.0
# Rows of `veldt bench sampling`, with the label of each line.
_LINES = {
    "sampling": "sampling",
    "simulate, network-ready, no inference": "simulation only",
    "inference alone": "inference only",
}


def _jobs(request: Request) -> list[Measurement]:
    counts = (2, 4, 8, 16) if request.is_small else (1, 2, 4, 8, 16, 32)
    cores = sorted({1, len(allowed_cores())})
    return [
        Measurement(
            group=f"{number_of_cores} processes, {'alternating' if alternate == 'on' else 'one group'}",
            words=(
                *("bench", "sampling", "--recipe", "a2c", "--env", env, "--processes", str(number_of_cores)),
                *(
                    "--num-envs",
                    str(count * number_of_cores),
                    "--alternate",
                    alternate,
                    "--seconds",
                    f"{_SECONDS}",
                ),
                "--json",
            ),
            seconds=4 * _SECONDS + 5.0,
            x=count,
            panel=env,
        )
        for env in request.envs("ALE/Breakout-v5")
        for number_of_cores in cores
        for alternate in ("on", "off")
        for count in counts
    ]


def _draw(results: Results) -> Exhibit:
    groups: dict[str, list[tuple[float, dict[str, float]]]] = {}
    for measured in results.measured:
        metrics = measured.values["metrics"]
        speeds = {label: metrics[row]["sps"] for row, label in _LINES.items()}
        speeds["harmonic limit"] = 1.0 / (1.0 / speeds["simulation only"] + 1.0 / speeds["inference only"])
        groups.setdefault(measured.job.group, []).append((measured.job.x, speeds))
    figure, axes = charts(len(groups), list(groups), "simulators per process", "steps per second and process")
    rows, best = [], 0.0
    for one, (group, points) in zip(axes, groups.items(), strict=True):
        processes = int(group.split()[0])
        points.sort(key=lambda point: point[0])
        x = [count for count, _ in points]
        for label in (*_LINES.values(), "harmonic limit"):
            style = "-" if label == "sampling" else "--"
            one.plot(x, [speeds[label] / processes for _, speeds in points], style, marker=".", label=label)
        one.set_xscale("log", base=2)
        one.set_ylim(bottom=0)
        one.legend(frameon=False, fontsize=7)
        for count, speeds in points:
            best = max(best, speeds["sampling"])
            share = speeds["sampling"] / speeds["harmonic limit"]
            cells = (
                *(number(speeds[label]) for label in (*_LINES.values(), "harmonic limit")),
                f"{share:.2f}",
            )
            rows.append((group, f"{count:g}", *cells))
    shares = [float(row[-1]) for row in rows]
    says = (
        f"Sampling reaches up to {number(best)} steps per second, and {number(float(np.mean(shares)))} of the harmonic "
        "limit of simulation and inference in the mean. As in the paper, more simulators per process bring more speed "
        "per process until simulation binds."
        if rows
        else "Nothing is measured yet."
    )
    header = ("arrangement", "simulators per process", *_LINES.values(), "harmonic limit", "share of it")
    drawing = Drawing("Sampling speed", "Agent steps per second and process.", figure)
    return Exhibit(says, [drawing], [Table("Steps per second", header, rows)])


SAMPLING = Experiment(
    name="sampling",
    source=f"{STOOKE}, figure 1 and table 3",
    shows="Steps per second by simulators per process, in alternating groups or one, beside the limits.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        "Inference on this machine's cores instead of a GPU: simulation and inference share the cores.",
        "Not drawn: samplers that run free of each other (they need several accelerators), and spare simulators.",
    ],
    seeds=(1, 1),
    repeats=False,
    needs=ATARI,
)
