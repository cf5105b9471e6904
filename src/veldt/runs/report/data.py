"""What a report says about a run, read from its directory; gaps of running and killed runs are filled or left open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt.runs.directory import RunDirectory
from veldt.runs.formatting import as_float
from veldt.runs.metrics import read_metrics
from veldt.runs.stages import STAGES

_POINTS = 400
_STAGE = "seconds/"


@dataclass(frozen=True)
class RunData:
    """One run: settings, final figures (empty unless it finished), metrics rows, events, and whether it trains now."""

    name: str
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    events: list[dict[str, Any]]
    state: str

    @classmethod
    def load(cls, path: Path) -> RunData:
        """Read the run in `path`; UsageError if it is none."""
        run = RunDirectory.open(path)
        # A resumed run still has the summary from before.
        running = run.is_locked()
        summary = None if running else run.read_summary()
        state = "running" if running else "stopped early" if summary is None else "finished"
        name = run.path.resolve().name
        return cls(name, run.read_config(), summary or {}, read_metrics(run.path), run.read_events(), state)

    def setting(self, key: str) -> str:
        """`recipe`, `env`, `seed` and the like as text, "" if unknown."""
        resolved = self.config["resolved"]
        for source in (self.summary, resolved, resolved.get("run")):
            value = source.get(key) if isinstance(source, dict) else None
            if value is not None:
                return str(value)
        return ""

    def figure(self, *keys: str) -> float:
        """The first of `keys` that is known, in the summary, else in the latest row that has it; NaN if none."""
        for source in (self.summary, *reversed(self.rows)):
            for key in keys:
                number = as_float(source.get(key))
                if np.isfinite(number):
                    return number
        return float("nan")

    def curve(self, x_key: str, y_key: str) -> tuple[np.ndarray, np.ndarray]:
        """(x, y), float64 [points] each, of the rows where both are finite; averaged down to a few hundred points."""
        pairs = np.array([(as_float(row.get(x_key)), as_float(row.get(y_key))) for row in self.rows]).reshape(
            -1, 2
        )
        pairs = pairs[np.isfinite(pairs).all(axis=1)]
        if len(pairs) > _POINTS:
            pairs = np.array([part.mean(axis=0) for part in np.array_split(pairs, _POINTS)])
        return pairs[:, 0], pairs[:, 1]

    def metric_names(self) -> list[str]:
        """The keys that any row has, in the order in which they first appear."""
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def stage_seconds(self) -> dict[str, float]:
        """Seconds by stage, the known stages first; from the rows where there is no summary yet."""
        seconds: dict[str, float] = {}
        if isinstance(final := self.summary.get("seconds_per_stage"), dict):
            seconds = {stage: as_float(value) for stage, value in final.items()}
        else:
            for row in self.rows:
                for key, value in row.items():
                    if key.startswith(_STAGE) and np.isfinite(as_float(value)):
                        stage = key.removeprefix(_STAGE)
                        seconds[stage] = seconds.get(stage, 0.0) + as_float(value)
        known = [stage for stage in STAGES if stage in seconds]
        ordered = [*known, *(stage for stage in seconds if stage not in STAGES)]
        return {stage: seconds[stage] for stage in ordered if seconds[stage] > 0}

    def settings(self) -> dict[str, Any]:
        """The resolved settings, nested ones under dotted names."""
        return _flat(self.config.get("resolved"), "")

    def given(self) -> set[str]:
        """The dotted names of the settings that were given rather than taken from the recipe."""
        return set(_flat(self.config.get("given"), ""))


@dataclass(frozen=True)
class Group:
    """Runs that are drawn in one colour: one run, or several of one recipe and environment that differ by seed."""

    label: str
    runs: list[RunData]


def grouped(runs: list[RunData]) -> list[Group]:
    """`runs` by recipe, algorithm, system and environment; apart where two of a group have the same seed."""
    identity = ("recipe", "algorithm", "system", "env")
    groups: dict[tuple[str, ...], list[RunData]] = {}
    for run in runs:
        groups.setdefault(tuple(run.setting(key) for key in identity), []).append(run)
    named = []
    for key, members in groups.items():
        # What differs between the groups is their name.
        differing = [
            key[i] for i in range(len(identity)) if len({other[i] for other in groups}) > 1 and key[i]
        ]
        label = " · ".join(differing) or " on ".join(part for part in (key[0] or key[1], key[3]) if part)
        if len({run.setting("seed") for run in members}) < len(members):
            # Same seed, so something else was changed as well: an average would mix different things.
            named += [Group(run.name, [run]) for run in members]
        elif len(members) > 1:
            named.append(Group(f"{label} ({len(members)} seeds)", members))
        else:
            named.append(Group(label if differing else members[0].name, members))
    return named


def envelope(
    curves: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(x, mean, lowest, highest) of several curves, on the stretch of x that all of them cover; empty if none."""
    empty = np.empty(0)
    if any(len(x) == 0 for x, _ in curves):
        return empty, empty, empty, empty
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if end <= start:
        return empty, empty, empty, empty
    grid = np.linspace(start, end, _POINTS // 2)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])
    return grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def smoothed(y: np.ndarray) -> np.ndarray:
    """`y` without its noise: a moving median, which keeps spikes out, then a moving mean, which rounds its steps."""
    half = len(y) // 60
    if half == 0:
        return y
    for average in (np.median, np.mean):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(y, half, mode="reflect"), 2 * half + 1)
        y = np.asarray(average(windows, axis=1))
    return y


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value} if prefix else {}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return flat
