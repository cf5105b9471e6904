"""The page of an experiment: one self-contained HTML file, and the same figures and tables as PNG and CSV files."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from pathlib import Path

import jinja2

from veldt.experiments.experiment import Experiment, Training, file_name
from veldt.experiments.figures import Table
from veldt.experiments.results import Results
from veldt.runs.files import write_atomically
from veldt.runs.machine import describe_machine
from veldt.runtime.cores import allowed_cores

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ experiment.name }} – veldt</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
.lead, figcaption, small { color: #5c5c5c } img { max-width: 100% }
table { border-collapse: collapse; font-size: 14px } th, td { padding: .2rem .8rem .2rem 0; text-align: left }
th { border-bottom: 1px solid #bbb } td { border-bottom: 1px solid #eee } figure { margin: 1rem 0 }
.says { border-left: 3px solid #4477aa; padding-left: .8rem }
</style></head><body>
<h1>{{ experiment.name }}</h1>
<p class="lead">{{ experiment.source }}. {{ experiment.shows }}</p>
<p class="says">{{ exhibit.says }}</p>
{% for drawing, picture in pictures %}
<figure><img alt="{{ drawing.title }}" src="data:image/png;base64,{{ picture }}">
<figcaption>{{ drawing.caption }}</figcaption></figure>
{% endfor %}
{% for table in exhibit.tables %}
<h2>{{ table.title }}</h2>
<table><tr>{% for cell in table.header %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
{% if table.caption %}<p><small>{{ table.caption }}</small></p>{% endif %}
{% endfor %}
<h2>How it was made</h2>
<p><code>{{ command }}</code>, on {{ machine }}.</p>
{% if missing %}<p>Not done yet: {{ missing|join(", ") }}.</p>{% endif %}
<h2>What differs from the paper</h2>
<ul>{% for line in differs %}<li>{{ line }}</li>{% endfor %}</ul>
{% if runs %}<h2>Runs</h2>
<table><tr><th>run</th><th>seed</th><th>steps</th><th>seconds</th><th>score</th><th>settings</th></tr>
{% for run in runs %}<tr>{% for cell in run %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>{% endif %}
</body></html>
"""


def write_page(root: Path, experiment: Experiment, results: Results, command: str) -> Path:
    """Writes `experiment.html`, a PNG file per figure and a CSV file per table to `root`; returns the page's path."""
    exhibit = experiment.draw(results)
    pictures = []
    for drawing in exhibit.drawings:
        buffer = io.BytesIO()
        drawing.figure.savefig(buffer, format="png")
        write_atomically(root / f"{file_name(drawing.title)}.png", buffer.getvalue(), "a figure")
        pictures.append((drawing, base64.b64encode(buffer.getvalue()).decode()))
    for table in (*exhibit.tables, *_curves(results)):
        write_atomically(root / f"{file_name(table.title)}.csv", _csv(table), "a table")
    page = jinja2.Environment(autoescape=True).from_string(_TEMPLATE)
    html = page.render(
        experiment=experiment,
        exhibit=exhibit,
        pictures=pictures,
        command=command,
        machine=_machine(),
        missing=results.missing,
        differs=experiment.differs(results.request),
        runs=[_row(run.job, run.steps, run.seconds, run.score) for run in results.runs],
    )
    out = root / "experiment.html"
    write_atomically(out, html.encode(errors="replace"), "the experiment's page")
    return out


def _row(job: Training, steps: int, seconds: float, score: float) -> Sequence[str]:
    settings = " ".join(f"{name}={value}" for name, value in job.settings.items() if name != "steps")
    name = f"{job.recipe} on {job.env}, {job.group}"
    return (name, str(job.seed), f"{steps:,}", f"{seconds:,.0f}", f"{score:,.1f}", settings)


def _curves(results: Results) -> list[Table]:
    """Returns the points of all runs' learning curves."""
    rows = []
    for run in results.runs:
        for step, score in zip(*run.curve(), strict=True):
            seconds = f"{float(run.seconds_at(step)):.1f}"
            rows.append(
                (run.job.chart, run.job.group, str(run.job.seed), f"{step:.0f}", seconds, f"{score:.3f}")
            )
    return (
        [Table("curves", ("chart", "group", "seed", "step", "seconds", "mean_return"), rows)] if rows else []
    )


def _csv(table: Table) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([table.header, *table.rows])
    return out.getvalue().encode()


def _machine() -> str:
    machine = describe_machine()
    return f"{len(allowed_cores())} cores of {machine['processor']}, {machine['memory_gb']} GB"
