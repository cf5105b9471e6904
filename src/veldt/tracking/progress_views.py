"""Renders progress as one line of plain text, or as a compact panel on a terminal. No state, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from veldt import formatting
from veldt.tracking.stage_clock import STAGES

if TYPE_CHECKING:
    from rich.panel import Panel
    from rich.text import Text

# Three lines that fit a terminal's default 80 columns.
_BAR = 26
_WIDTH = 80
_FAINT = "#5a606b"
# One hue per stage, grey for idle; readable on dark and on light backgrounds.
_COLOURS = {
    "simulate": "#5b8def",
    "infer": "#2fb5a0",
    "replay": "#b07cc6",
    "train": "#e8954a",
    "evaluate": "#5fa85f",
    "wait": "#8a8f98",
}
# The panel's columns: where each begins, its caption and its metric.
_COLUMNS = (
    (24, "SPS", "time/steps_per_second"),
    (38, "FPS", "time/frames_per_second"),
    (54, "episodes", "rollout/episodes"),
)


def plain_line(row: Mapping[str, Any], total_steps: int, until: float | None) -> str:
    """Returns the row as one line of plain text; missing metrics are left out."""
    step = formatting.as_float(row.get("step"))
    done = formatting.percent(_done(row, total_steps))
    parts = [f"step {formatting.whole(step)}/{formatting.whole(total_steps)} ({done})"]
    if step:
        parts += _measured(row, until)
    else:
        # Rates and shares of nothing would say nothing; with many processes or slow resets this can take a minute.
        parts.append("no step so far (processes start, envs are reset, a first rollout is played)")
    if row.get("seconds") is not None:
        parts.append(f"time {formatting.duration(row['seconds'])}")
    if step and _time_left(row):
        parts.append(f"left {_time_left(row)}")
    return "  ".join(parts)


def _measured(row: Mapping[str, Any], until: float | None) -> list[str]:
    """Return, rates and shares of time, as parts of the plain line."""
    parts = []
    if row.get("rollout/ep_return_mean") is not None:
        target = "" if until is None else f" (until {formatting.decimal(until)})"
        parts.append(f"return {formatting.decimal(row['rollout/ep_return_mean'])}{target}")
    named = (
        ("episodes", "rollout/episodes"),
        ("sps", "time/steps_per_second"),
        ("fps", "time/frames_per_second"),
    )
    parts += [f"{name} {formatting.whole(row[key])}" for name, key in named if row.get(key) is not None]
    shares = [f"{stage} {formatting.percent(share)}" for stage, share in _shares(row).items()]
    if shares:
        parts.append(" ".join(shares))
    return parts


def panel(title: str, row: Mapping[str, Any], total_steps: int, until: float | None) -> Panel:
    """Returns the row as a panel of three lines for a terminal."""
    from rich.panel import Panel
    from rich.text import Text

    text = Text("\n", no_wrap=True, overflow="ellipsis").join(
        (_steps(row, total_steps), _metrics(row, until), _stages(row))
    )
    # Fixed width, so that it does not jump as numbers grow; rich narrows it to the terminal.
    return Panel(
        text,
        title=Text(title, "bold default"),
        title_align="left",
        border_style=_FAINT,
        padding=(0, 2),
        width=_WIDTH,
    )


def _steps(row: Mapping[str, Any], total_steps: int) -> Text:
    from rich.text import Text

    done = _done(row, total_steps)
    text = Text.assemble(*_bar([(done, _COLOURS["simulate"])]), (f"  {formatting.percent(done)}", "bold"))
    text.append(f"  {formatting.count(row.get('step'))} of {formatting.count(total_steps)} steps")
    if row.get("seconds") is not None:
        text.append(f"  {formatting.duration(row['seconds'])}", "dim")
    if _time_left(row):
        text.append(f", {_time_left(row)} left", "dim")
    return text


def _metrics(row: Mapping[str, Any], until: float | None) -> Text:
    from rich.text import Text

    text = Text.assemble(
        ("return ", "dim"), (formatting.decimal(row.get("rollout/ep_return_mean")), "bold green")
    )
    if until is not None:
        text.append(f" of {formatting.decimal(until)}", "dim")
    # Fixed columns, so that a number that gains a digit does not move the others.
    for column, name, key in _COLUMNS:
        text.append(" " * max(2, column - len(text)))
        text.append(f"{name} ", "dim")
        text.append(formatting.whole(row.get(key)))
    return text


def _stages(row: Mapping[str, Any]) -> Text:
    from rich.text import Text

    shares = _shares(row)
    text = Text.assemble(*_bar([(share, _COLOURS[stage]) for stage, share in shares.items()]))
    for stage, share in shares.items():
        text.append(f"  {stage}", _COLOURS[stage])
        text.append(f" {formatting.percent(share)}")
    return text


def _done(row: Mapping[str, Any], total_steps: int) -> float:
    """Fraction of steps done, 0..1; the last batch of a run may exceed its steps."""
    return min(1.0, max(0.0, formatting.as_float(row.get("step")) / total_steps))


def _time_left(row: Mapping[str, Any]) -> str:
    """The remaining time; "" if it is unknown, or if all steps are done."""
    seconds = formatting.as_float(row.get("eta_seconds"))
    return formatting.duration(seconds) if seconds > 0 else ""


def _shares(row: Mapping[str, Any]) -> dict[str, float]:
    """The stages with a known share of the time (0..1)."""
    shares = {stage: formatting.as_float(row.get(f"share_{stage}")) for stage in STAGES}
    return {stage: share for stage, share in shares.items() if 0 <= share <= 1}


def _bar(parts: list[tuple[float, str]]) -> list[tuple[str, str]]:
    """Returns a bar of `_BAR` characters with one piece for each part (share, colour); the rest is faint."""
    pieces, start, total = [], 0, 0.0
    for share, colour in parts:
        total += share
        # Rounds end positions, not lengths, so that rounding errors do not add up.
        end = max(start, min(_BAR, round(total * _BAR)))
        pieces.append(("━" * (end - start), colour))
        start = end
    return [*pieces, ("━" * (_BAR - start), _FAINT)]
