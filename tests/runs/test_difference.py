"""The first difference between the episodes of two runs, found with one opening of each file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from veldt.runs import difference, episodes
from veldt.runs.difference import first_difference


def log_of(run: Path, actions: Sequence[int]) -> Path:
    log = episodes.EpisodeLog(run)
    for number, action in enumerate(actions):
        log.append(
            env=0,
            episode=number,
            seed=number,
            step=number,
            length=2,
            score=1.0,
            actions=np.array([action, 1]),
        )
    log.close()
    return run


def test_a_file_of_actions_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Path]()
    open_to_read = episodes.open_to_read
    monkeypatch.setattr(episodes, "open_to_read", lambda path: opened.append(path) or open_to_read(path))
    monkeypatch.setattr(difference, "_newest", lambda run: None)
    monkeypatch.setattr(difference, "_difference_of_checkpoints", lambda one, other: None)
    one, other = log_of(tmp_path / "one", [0] * 50), log_of(tmp_path / "other", [0] * 50)
    assert first_difference(one, other) is None
    assert opened == [one / "actions.bin", other / "actions.bin"]


def test_an_episode_with_other_actions_is_named(tmp_path: Path) -> None:
    one, other = log_of(tmp_path / "one", [0, 0, 0]), log_of(tmp_path / "other", [0, 0, 1])
    assert str(first_difference(one, other)).startswith(
        "episode 2 in the order of their ends (env 0, step 2)"
    )
