"""How often a run of synchronised learners is restarted: by --max-restarts, and as long as it makes sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from veldt.errors import RoleError
from veldt.runs.checkpoint_files import Checkpoint
from veldt.systems.driver import restart_policy


class Failing:
    """A run that fails `times` times, each time with the checkpoint of the same step."""

    is_asked_to_stop, role_restarts = False, 0

    def __init__(self, times: int, details: str) -> None:
        self.left, self.details, self.begun = times, details, 0

    def begin(self, checkpoint: Checkpoint | None, history: Any = None) -> Any:
        self.begun += 1
        return self

    def run(self) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise RoleError("the learner 1 is lost", details=self.details, is_final=False)
        return "outcome"


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    checkpoint = Checkpoint(path=Path("step-100"), step=100, groups={}, meta={})
    monkeypatch.setattr(restart_policy, "newest_checkpoint", lambda directory: checkpoint)
    return checkpoint


def test_learners_that_are_killed_again_and_again_are_restarted(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="")
    assert restart_policy.run_restarting(run.begin, checkpoint, Path("run"), 1000) == "outcome"  # type: ignore[comparison-overlap]
    assert run.begun == 51


def test_the_same_error_three_times_ends_the_run_and_says_why(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="Traceback ...")
    with pytest.raises(RoleError) as caught:
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), 1000)
    assert run.begun == 3
    assert any("whatever --max-restarts: 3 restarts in a row" in note for note in caught.value.__notes__)


def test_max_restarts_is_the_limit(checkpoint: Checkpoint) -> None:
    run = Failing(50, details="")
    with pytest.raises(RoleError):
        restart_policy.run_restarting(run.begin, checkpoint, Path("run"), 5)
    assert run.begun == 6
