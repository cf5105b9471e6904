"""What a search shows while it runs: a live table of its trials on a terminal, and a line for each that ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from veldt.experiments.live import LiveView
from veldt.formatting import decimal, duration, percent
from veldt.tuning.space import text_of
from veldt.tuning.study import State, Trial


@dataclass(frozen=True)
class Shown:
    """How far a running trial is."""

    trial: Trial
    share: float
    seconds: float
    score: float | None
    is_pruned: bool


class Screen(LiveView):
    """Shows how far a search is."""

    def show(self, running: Sequence[Shown]) -> None:
        """Draws the table of the running trials, where there is a terminal."""
        self.draw(lambda: _table(running))

    def note(self, sentence: str) -> None:
        """Prints a sentence."""
        self._console.print(sentence, highlight=False, soft_wrap=True)

    def ended(self, trial: Trial, trials: Sequence[Trial]) -> None:
        """Prints how a trial has ended, and the best score so far."""
        if trial.state is State.FAILED:
            how = f"failed: {trial.why}"
        elif trial.state is State.PRUNED:
            how = f"pruned at a score of {decimal(trial.score)}"
        else:
            how = f"score {decimal(trial.score)}"
        scores = [one.score for one in trials if one.state is State.DONE and one.score is not None]
        best = f", best {decimal(max(scores))}" if scores else ""
        self.note(f"{trial.name}: {how}{best} ({shown_values(trial.values)})")


def shown_values(values: Mapping[str, Any]) -> str:
    """Returns values by name in one line."""
    return " ".join(f"{name}={text_of(value)}" for name, value in values.items())


def _table(running: Sequence[Shown]) -> Table:
    table = Table("trial", "done", "time", "score", "values", box=None)
    for one in running:
        done = "pruned" if one.is_pruned else percent(one.share)
        table.add_row(
            one.trial.name, done, duration(one.seconds), decimal(one.score), shown_values(one.trial.values)
        )
    return table
