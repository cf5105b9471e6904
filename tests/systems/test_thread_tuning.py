"""Which rate GA3C's tuner maximises, and which words it reports it in."""

from __future__ import annotations

from typing import Any

import pytest

from veldt.exchange.queue_stats import QueueStats
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.role_messages import Note
from veldt.systems.ga3c.thread_tuning import ThreadTuning


class Part:
    """A control, a server, a queue and a pool of threads in one, none of which does anything."""

    def __init__(self, stats: Any = None) -> None:
        self.stats, self.sent = stats, list[Note]()

    def send(self, message: Note) -> None:
        self.sent.append(message)

    def activate(self, count: int) -> None:
        pass


@pytest.mark.parametrize(
    ("grouped", "expected"),
    [
        (True, "rollouts/s, and 2 made 200.0 and 200.0: reverted"),
        (False, "updates/s, and 2 made 10.0 and 10.0: reverted"),
    ],
    ids=["grouped", "ungrouped"],
)
def test_the_tuner_says_which_rate_it_maximises(expected: str, *, grouped: bool) -> None:
    """200 rollouts a second, of which an update takes 20."""
    settings = {
        "tuner_interval": 10.0,
        "group_rollouts": grouped,
        "predictors": 2,
        "trainers": 2,
        "tuner_most": 3,
    }
    config = with_settings(find("ga3c").config("CartPole-v1"), settings)
    control, queue, updates = Part(), Part(QueueStats(1, 1, 1)), 0
    tuning = ThreadTuning(
        control,  # type: ignore[arg-type]
        config,
        Part(QueueStats()),  # type: ignore[arg-type]
        queue,  # type: ignore[arg-type]
        lambda: updates,
        Part(),  # type: ignore[arg-type]
        Part(),  # type: ignore[arg-type]
        {},
    )
    now = tuning._began.seconds
    for _ in range(3):
        now, updates = now + 10.0, updates + 100
        queue.stats = QueueStats(queue.stats.items + 2000, updates, 0)
        tuning.poll(now)
    (note,) = control.sent
    assert note.about == "tuner" and note.text.endswith(expected), note.text
