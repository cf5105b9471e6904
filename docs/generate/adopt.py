"""Copies what a finished experiment shows into docs/images/experiments: its sentence, figures and tables."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generate.adopted import PICTURES
from generate.run_settings import Settings, digests, with_cores
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Experiment, Request, Training, file_name
from veldt.experiments.figures import Exhibit, Table
from veldt.experiments.machines import machines_of
from veldt.experiments.results import Results
from veldt.experiments.workspace import Workspace
from veldt.runs.directory import RunDirectory
from veldt.runtime.cores import allowed_cores

_MOST_ROWS = 120  # of a table


def adopt(directory: Path, pictures: Path = PICTURES) -> None:
    """Copies the results of the experiment in `directory`, in the place of those that were adopted of it before.

    NAME.json says from when, which machines, and which settings they are. A table of more than 120 rows is left out.

    Raises:
        SystemExit: there is no experiment in the directory, or it is not finished.
    """
    experiment, request = _asked(directory)
    workspace = Workspace(directory, experiment, request)
    records = [json.loads(path.read_text()) for path in sorted(directory.glob("runs/*/config.json"))]
    records += [json.loads(path.read_text()) for path in sorted(directory.glob("measured/*.json"))]
    cores = _cores(workspace, experiment, request, records)
    with with_cores(cores):
        jobs = experiment.jobs(request)
        results = workspace.results(jobs)
        if results.missing:
            raise SystemExit(
                f"{directory} is not finished ({results.missing[0]} is not done): give its command again, which is at "
                "the end of its experiment.html"
            )
        exhibit = experiment.draw(results)
    about = {
        "request": {
            "scale": request.scale,
            "seeds": request.seeds,
            "games": request.games,
            "recipes": request.recipes,
        },
        "date": _day(directory, results),
        "machines": machines_of(results.records()),
        "cores": cores,
        **digests(jobs, _recorded_in(workspace)),
    }
    curves = pictures / f"{experiment.name}-curves.csv"  # linked from the page, as it is
    for left in (*pictures.glob(f"{experiment.name}-*.png"), *pictures.glob(f"{experiment.name}-*.csv")):
        if left != curves:
            left.unlink()
    about |= _copied(experiment.name, exhibit, pictures)
    (pictures / f"{experiment.name}.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{experiment.name} is from {directory}")


def _asked(directory: Path) -> tuple[Experiment, Request]:
    """Returns which experiment is in a directory, and what was asked of it."""
    try:
        asked = json.loads((directory / "experiment.json").read_text())
    except FileNotFoundError:
        raise SystemExit(f"{directory} has no experiment.json: name the directory of an experiment") from None
    games, recipes = tuple(asked["games"]), tuple(asked.get("recipes", ()))
    if asked.get("starts"):
        print(
            f"{asked['experiment']}: the scores from --starts are left out, whose files are not in the directory"
        )
    return EXPERIMENTS[asked["experiment"]], Request(asked["scale"], asked["seeds"], games, recipes)


def _cores(
    workspace: Workspace, experiment: Experiment, request: Request, records: Sequence[Mapping[str, Any]]
) -> int:
    """Returns the number of cores for which the experiment has the jobs that were done, as far as records tell it."""
    hardware = [record.get("hardware") or {} for record in records]  # older measurements have none
    recorded = {one[name] for one in hardware for name in ("machine_cores", "cores") if name in one}
    here = len(allowed_cores())
    for cores in (here, *sorted(recorded, reverse=True)):
        with with_cores(cores):
            if all(map(workspace.is_done, experiment.jobs(request))):
                return cores
    return here


def _recorded_in(workspace: Workspace) -> Settings:
    """Returns a function that returns the settings of a job's run, as `digests` takes it."""

    def recorded(job: Training) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        config = RunDirectory(workspace.run_path(job)).read_config()
        sections = [section for section in config["given"].values() if isinstance(section, dict)]
        return config["resolved"], {name: value for section in sections for name, value in section.items()}

    return recorded


def _day(directory: Path, results: Results) -> str:
    """Returns the day on which the last run was begun, or on which the experiment was begun if there are none."""
    days = [run.record["created"][:10] for run in results.runs if "created" in run.record]
    written = time.localtime((directory / "experiment.json").stat().st_mtime)
    return max(days, default=time.strftime("%Y-%m-%d", written))


def _copied(name: str, exhibit: Exhibit, pictures: Path) -> dict[str, Any]:
    """Writes the sentence, the figures and the tables. Returns the files, titles and captions."""
    (pictures / f"{name}.txt").write_text(exhibit.says + "\n")
    figures, tables = [], []
    for drawing in exhibit.drawings:
        file = f"{name}-{file_name(drawing.title)}.png"
        drawing.figure.savefig(pictures / file, format="png")
        figures.append({"file": file, "caption": drawing.caption})
    for one in exhibit.tables:
        if len(one.rows) > _MOST_ROWS:
            print(f"{name}: the table '{one.title}' is left out, which has {len(one.rows)} rows")
            continue
        file = f"{name}-{file_name(one.title)}.csv"
        _write(pictures / file, one)
        tables.append({"file": file, "title": one.title, "caption": one.caption})
    return {"figures": figures, "tables": tables}


def _write(path: Path, one: Table) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([one.header, *one.rows])
