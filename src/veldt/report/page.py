"""The page: its sections, in order, in one self-contained HTML document."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path

from veldt.report.aggregates import aggregate_section
from veldt.report.curves import learning_section
from veldt.report.data import RunData
from veldt.report.facts import events_section, reproduction_section, settings_section
from veldt.report.groups import by_environment
from veldt.report.links import number_of_runs
from veldt.report.overview import heading, headline, title
from veldt.report.returns import return_section
from veldt.report.scores import score_section
from veldt.report.speed import speed_section
from veldt.report.style import STYLE

SIGNATURE = "Written by veldt on"  # in the footer; identifies a file as a report


def render(runs: list[RunData], out: Path, target: float | None = None) -> str:
    """Returns the HTML document for `runs`, which must not be empty.

    Args:
        runs: the runs.
        out: the file that the document is for: links to the runs' own reports are relative to it.
        target: the score for which steps and time are shown (see `score_section`).
    """
    environments = by_environment(runs)
    sections = [headline(environments, out), aggregate_section(environments)]
    for environment in environments:
        if len(environments) > 1:
            sections.append(
                f'<h2 class="environment">{escape(environment.name or "Unknown environment")}</h2>'
            )
        sections += [
            score_section(environment, target),
            return_section(environment),
            speed_section(environment),
            learning_section(environment),
        ]
    sections += [events_section(runs), settings_section(runs), reproduction_section(runs)]
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            number_of_runs(len(runs)),
            f"<title>{escape(title(runs))}</title>",
            f"<style>{STYLE}</style></head><body>",
            heading(runs),
            "<main>",
            *(section for section in sections if section),
            "</main>",
            f"<footer>{SIGNATURE} {time.strftime('%d %B %Y at %H:%M')}</footer>",
            "</body></html>\n",
        )
    )
