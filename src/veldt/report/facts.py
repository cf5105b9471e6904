"""The sections of facts: events of the run, all settings, and what is needed to reproduce it."""

from __future__ import annotations

import json
import shlex
from html import escape
from pathlib import PurePath
from typing import Any

from veldt import formatting
from veldt.report.data import RunData
from veldt.runs import strict_json

_SHOWN_EVENTS = 50


def events_section(runs: list[RunData]) -> str:
    """Restarts, resumes and warnings in order of time; "" if there were none."""
    events = [(event, run) for run in runs for event in run.events]
    if not events:
        return ""
    several = len(runs) > 1
    first = "<th>Run</th>" if several else ""
    head = f'<tr>{first}<th class="number">Step</th><th>Kind</th><th>What happened</th></tr>'
    rows = [_event(event, run.name if several else None) for event, run in events]
    more = ""
    if len(rows) > _SHOWN_EVENTS:
        rest = _table(rows[_SHOWN_EVENTS:])
        more = f"<details><summary>{len(rows) - _SHOWN_EVENTS} more</summary>{rest}</details>"
    return f"<section><h2>Events</h2>{_table([head, *rows[:_SHOWN_EVENTS]])}{more}</section>"


def settings_section(runs: list[RunData]) -> str:
    """All resolved settings: by section for one run; for several runs, a table with the differences marked."""
    if len(runs) == 1:
        body = _settings_of_one(runs[0])
    else:
        body = _settings_of_several(runs)
    return f"<section><h2>Settings</h2>{body}</section>" if body else ""


def reproduction_section(runs: list[RunData]) -> str:
    """Command line, machine and versions of each run."""
    blocks = []
    for run in runs:
        name = f"<h3>{escape(run.name)}</h3>" if len(runs) > 1 else ""
        command = _typed([str(part) for part in run.config.get("command") or []])
        shown = f"<pre>{escape(shlex.join(command))}</pre>" if command else ""
        facts = {**(run.config.get("hardware") or {}), **(run.config.get("versions") or {})}
        blocks.append(f'<div>{name}{shown}<dl class="facts">{_facts(facts)}</dl></div>')
    body = "".join(blocks)
    if len(runs) > 1:
        body = (
            f"<details><summary>Commands, machines and versions of {len(runs)} runs</summary>{body}</details>"
        )
    return f'<section class="reproduce"><h2>To do it again</h2>{body}</section>'


def _typed(command: list[str]) -> list[str]:
    """Returns a command as it was typed: Python replaces `python -m veldt` and `veldt` by the paths of files."""
    program = PurePath(command[0]) if command else PurePath()
    if program.parts[-2:] == ("veldt", "__main__.py"):
        return ["python", "-m", "veldt", *command[1:]]
    return ["veldt", *command[1:]] if program.name == "veldt" else command


def _table(rows: list[str]) -> str:
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _event(event: dict[str, Any], run: str | None) -> str:
    name = "" if run is None else f'<td class="nowrap">{escape(run)}</td>'
    step = f'<td class="number">{formatting.whole(event.get("step"))}</td>'
    kind = f'<td class="nowrap">{escape(str(event.get("kind", "")))}</td>'
    text = f'<td class="text">{escape(str(event.get("text", "")))}</td>'
    return f"<tr>{name}{step}{kind}{text}</tr>"


def _settings_of_one(run: RunData) -> str:
    sections: dict[str, list[tuple[str, str, Any]]] = {}
    for key, value in run.settings().items():
        section, _, name = key.partition(".")
        sections.setdefault(section if name else "", []).append((key, name or key, value))
    if not sections:
        return ""
    given = run.given()
    blocks = []
    for section, entries in sections.items():
        lines = "".join(
            f"<div{' class=given' if key in given else ''}><dt>{escape(name)}</dt><dd>{_value(value)}</dd></div>"
            for key, name, value in entries
        )
        blocks.append(f"<div><h3>{escape(section or 'run')}</h3><dl>{lines}</dl></div>")
    note = (
        '<p class="note"><b>Coloured</b> settings were given; the others are the recipe\'s.</p>'
        if given
        else ""
    )
    return f'{note}<div class="settings">{"".join(blocks)}</div>'


def _settings_of_several(runs: list[RunData]) -> str:
    settings = [run.settings() for run in runs]
    keys = dict.fromkeys(key for one in settings for key in one)
    head = "<tr><th></th>" + "".join(f"<th>{escape(run.name)}</th>" for run in runs) + "</tr>"
    differing, same = [], []
    for key in keys:
        values = [_value(one[key]) if key in one else formatting.MISSING for one in settings]
        name = f"<td><code>{escape(key)}</code></td>"
        if len(set(values)) > 1:
            cells = "".join(f"<td><code>{value}</code></td>" for value in values)
            differing.append(f'<tr class="differs">{name}{cells}</tr>')
        else:
            same.append(f"<tr>{name}<td><code>{values[0]}</code></td></tr>")
    shown = _table([head, *differing]) if differing else '<p class="note">All settings are the same.</p>'
    summary = f"<summary>{len(same)} settings are the same in all runs</summary>"
    return shown + (f"<details>{summary}{_table(same)}</details>" if same else "")


def _facts(facts: dict[str, Any]) -> str:
    return "".join(
        f"<div><dt>{escape(_fact_name(key))}</dt><dd>{_value(value)}</dd></div>"
        for key, value in facts.items()
    )


def _fact_name(key: str) -> str:
    name = key.removesuffix("_gb").replace("_", " ")
    return f"{name}, GB" if key.endswith("_gb") else name


def _value(value: Any) -> str:
    """A setting's value, escaped, in its usual notation."""
    if isinstance(value, str):
        return escape(value) or "&quot;&quot;"
    if value is None:
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return escape(json.dumps(strict_json.plain(value), ensure_ascii=False))
