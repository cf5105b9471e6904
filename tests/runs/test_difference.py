"""The first difference between the episodes of two runs, found with one opening of each file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from veldt.runs import difference, episodes
from veldt.runs.difference import first_difference


@pytest.fixture
def without_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "_newest", lambda run: None)
    monkeypatch.setattr(difference, "_difference_of_checkpoints", lambda one, other: None)


def log_of(run: Path, actions: Sequence[int], envs: int = 1, score: float = 1.0) -> Path:
    log = episodes.EpisodeLog(run)
    for number, action in enumerate(actions):
        log.append(
            env=number % envs,
            episode=number // envs,
            seed=number,
            step=number,
            length=2,
            score=score,
            actions=np.array([action, 1]),
        )
    log.close()
    return run


def test_a_file_of_actions_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_checkpoints: None
) -> None:
    opened = list[Path]()
    open_to_read = episodes.open_to_read
    monkeypatch.setattr(episodes, "open_to_read", lambda path: opened.append(path) or open_to_read(path))
    one, other = log_of(tmp_path / "one", [0] * 50), log_of(tmp_path / "other", [0] * 50)
    assert first_difference(one, other) is None
    assert opened == [one / "actions.bin", other / "actions.bin"]


def test_an_episode_with_other_actions_is_named(tmp_path: Path) -> None:
    one, other = log_of(tmp_path / "one", [0, 0, 0]), log_of(tmp_path / "other", [0, 0, 1])
    assert first_difference(one, other) == (
        "episode 2 of env 0, which ended at step 2, has other actions in the other run"
    )


def test_several_learners_may_report_their_episodes_in_any_order(
    tmp_path: Path, without_checkpoints: None
) -> None:
    one, other = log_of(tmp_path / "one", [0, 1], envs=2), log_of(tmp_path / "other", [0, 1], envs=2)
    lines = (other / "episodes.jsonl").read_text().splitlines(keepends=True)
    (other / "episodes.jsonl").write_text("".join(reversed(lines)).replace('"step": 1,', '"step": 3,'))
    assert first_difference(one, other) is None


def test_a_return_that_is_no_number_is_the_same_as_another(tmp_path: Path, without_checkpoints: None) -> None:
    one, other = (
        log_of(tmp_path / "one", [0], score=math.nan),
        log_of(tmp_path / "other", [0], score=math.nan),
    )
    assert first_difference(one, other) is None
    number = log_of(tmp_path / "number", [0])
    assert str(first_difference(one, number)).endswith(
        "has return nan and length 2, and in the other run 1 and 2"
    )


def test_an_episode_that_only_one_run_has_is_named(tmp_path: Path) -> None:
    one, other = log_of(tmp_path / "one", [0, 0]), log_of(tmp_path / "other", [0])
    assert (
        first_difference(one, other) == "episode 1 of env 0, which ended at step 1, is not in the other run"
    )
    assert first_difference(other, one) == "1 episodes ended, and 2 in the other run"
