"""What a search shows while it runs: a live table of its trials on a terminal, and a line for each that ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from veldt.experiments.live import LiveView
from veldt.formatting import decimal, duration, percent
from veldt.setting_text import as_words
from veldt.tuning.study import Trial, TrialState

_LINES_S = 60.0  # between lines about the running trials where there is no terminal


@dataclass(frozen=True)
class RunningTrial:
    """How far a running trial is."""

    trial: Trial
    share: float
    seconds: float
    score: float | None
    is_pruned: bool


class SearchScreen(LiveView):
    """Shows how far a search is."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._printed_at = time.monotonic()

    def show(self, running: Sequence[RunningTrial]) -> None:
        """Draws the table of the running trials; without a terminal, prints a line for each once a minute."""
        if self.draw(lambda: _table(running)) or time.monotonic() - self._printed_at < _LINES_S:
            return
        self._printed_at = time.monotonic()
        for one in running:
            score = "no score yet" if one.score is None else f"score {decimal(one.score)}"
            self.note(f"{one.trial.name}: {percent(one.share)} of its steps, {score}")

    def note(self, sentence: str) -> None:
        """Prints a sentence."""
        self._console.print(sentence, highlight=False, soft_wrap=True)

    def ended(self, trial: Trial, trials: Sequence[Trial]) -> None:
        """Prints how a trial has ended, and the best score so far."""
        if trial.state is TrialState.FAILED:
            how = f"failed: {trial.why}"
        elif trial.state is TrialState.PRUNED:
            how = f"pruned at a score of {decimal(trial.score)}"
        else:
            how = f"score {decimal(trial.score)}"
        scores = [one.score for one in trials if one.state is TrialState.DONE and one.score is not None]
        best = f", best {decimal(max(scores))}" if scores else ""
        self.note(f"{trial.name}: {how}{best} ({shown_values(trial.values)})")


def shown_values(values: Mapping[str, Any]) -> str:
    """Returns values as flags, in one line."""
    return " ".join(word for name, value in values.items() for word in as_words(name, value))


def _table(running: Sequence[RunningTrial]) -> Table:
    table = Table("trial", "done", "time", "score", "values", box=None)
    for one in running:
        done = "pruned" if one.is_pruned else percent(one.share)
        table.add_row(
            one.trial.name, done, duration(one.seconds), decimal(one.score), shown_values(one.trial.values)
        )
    return table
