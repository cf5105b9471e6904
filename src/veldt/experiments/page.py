"""The page of results: one self-contained HTML file, and the same figures and tables as PNG and CSV files."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from veldt.experiments.experiment import Experiment, file_name
from veldt.experiments.figures import Exhibit, Table, number
from veldt.experiments.machines import machines_of
from veldt.experiments.own_directory import AGAIN
from veldt.experiments.results import FinishedRun, Results
from veldt.runs.files import write_atomically

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ page.title }} – veldt</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
.lead, figcaption, small { color: #5c5c5c } img { max-width: 100% }
table { border-collapse: collapse; font-size: 14px } th, td { padding: .2rem .8rem .2rem 0; text-align: left }
th { border-bottom: 1px solid #bbb } td { border-bottom: 1px solid #eee } figure { margin: 1rem 0 }
.says { border-left: 3px solid #4477aa; padding-left: .8rem }
</style></head><body>
<h1>{{ page.title }}</h1>
<p class="lead">{{ page.lead }}</p>
<p class="says">{{ page.exhibit.says }}</p>
{% for drawing, picture in pictures %}
<figure><img alt="{{ drawing.title }}" src="data:image/png;base64,{{ picture }}">
<figcaption>{{ drawing.caption }}</figcaption></figure>
{% endfor %}
{% for table in page.exhibit.tables %}
<h2>{{ table.title }}</h2>
<p><a href="{{ table|csv_name }}">CSV</a></p>
<table><tr>{% for cell in table.header %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
{% if table.caption %}<p><small>{{ table.caption }}</small></p>{% endif %}
{% endfor %}
<h2>How it was made</h2>
<p><code>{{ page.command }}</code>{% if page.machines %}, on {{ page.machines|join("; ") }}{% endif %}.</p>
{% if page.missing %}<p>Not done yet: {{ page.missing|join(", ") }}.</p>{% endif %}
{% for heading, lines in page.notes.items() %}
<h2>{{ heading }}</h2>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
{% endfor %}
{% if page.runs %}<h2>Runs</h2>
<table><tr><th>run</th><th>seed</th><th>steps</th><th>seconds</th><th>score</th><th>settings</th></tr>
{% for place, cells in page.runs %}<tr><td><a href="{{ place }}">{{ cells[0] }}</a></td>
{%- for cell in cells[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>{% endif %}
{% for table in page.files %}<p>Also as CSV: <a href="{{ table|csv_name }}">{{ table.title }}</a></p>{% endfor %}
</body></html>
"""


@dataclass(frozen=True)
class Page:
    """What a page of results says.

    Args:
        lead: what it is about.
        command: that makes it.
        machines: in words, on which its runs and measurements were made.
        missing: names of what is not done yet.
        notes: sentences by their heading.
        runs: for each run its directory, relative to that of the page, and a row of cells: name, seed, steps, seconds,
            score, settings.
        files: tables that get a CSV file only.
    """

    title: str
    lead: str
    exhibit: Exhibit
    command: str
    machines: Sequence[str] = ()
    missing: Sequence[str] = ()
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runs: Sequence[tuple[str, Sequence[str]]] = ()
    files: Sequence[Table] = ()


def write_page(out: Path, page: Page) -> None:
    """Writes the page to `out`, and a PNG file per figure and a CSV file per table beside it."""
    pictures = []
    for drawing in page.exhibit.drawings:
        buffer = io.BytesIO()
        drawing.figure.savefig(buffer, format="png")
        write_atomically(
            out.with_name(f"{file_name(drawing.title)}.png"), buffer.getvalue(), "a figure", AGAIN
        )
        pictures.append((drawing, base64.b64encode(buffer.getvalue()).decode()))
    for table in (*page.exhibit.tables, *page.files):
        write_atomically(out.with_name(_csv_name(table)), _csv(table), "a table", AGAIN)
    environment = jinja2.Environment(autoescape=True)
    environment.filters["csv_name"] = _csv_name
    html = environment.from_string(_TEMPLATE).render(page=page, pictures=pictures)
    write_atomically(out, html.encode(errors="replace"), "the page of results", AGAIN)


def page_of(experiment: Experiment, results: Results, command: str) -> Page:
    """Returns the page of an experiment."""
    return Page(
        title=experiment.name,
        lead=f"{experiment.source}. {experiment.shows}",
        exhibit=experiment.draw(results),
        command=command,
        machines=machines_of(results.records()),
        missing=results.missing,
        notes={"What differs from the paper": experiment.differs(results.request)},
        runs=[(f"runs/{run.path.name}/", _row(run)) for run in results.runs],
        files=curves_of(results.runs),
    )


def _row(run: FinishedRun) -> Sequence[str]:
    job = run.job
    settings = " ".join(f"{name}={value}" for name, value in job.settings.items() if name != "steps")
    name = f"{job.recipe} on {job.env}, {job.group}"
    return (name, str(job.seed), f"{run.steps:,}", f"{run.seconds:,.0f}", number(run.score), settings)


def curves_of(runs: Sequence[FinishedRun]) -> list[Table]:
    """Returns a table of the points of all runs' learning curves; none without runs."""
    rows = []
    for run in runs:
        for step, score in zip(*run.curve(), strict=True):
            seconds = f"{float(run.seconds_at(step)):.1f}"
            rows.append(
                (run.job.chart, run.job.group, str(run.job.seed), f"{step:.0f}", seconds, f"{score:.3f}")
            )
    return (
        [Table("curves", ("chart", "group", "seed", "step", "seconds", "mean_return"), rows)] if rows else []
    )


def _csv_name(table: Table) -> str:
    return f"{file_name(table.title)}.csv"


def _csv(table: Table) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([table.header, *table.rows])
    return out.getvalue().encode()
