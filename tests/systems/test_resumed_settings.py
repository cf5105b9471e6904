"""Settings changed by a resume stay changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import veldt
from run_state import SMALL
from veldt.runs.directory import RunDirectory


def config(run: Path) -> Any:
    return json.loads((run / "config.json").read_text())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    settings: dict[str, Any] = SMALL | {"steps": 64, "env_backend": "in-process"}
    return veldt.train(
        "ppo", env="environments:scripted", run_dir=tmp_path / "run", quiet=True, **settings
    ).path


def test_the_next_resume_keeps_a_changed_setting(run: Path) -> None:
    before = config(run)
    assert veldt.resume(run, steps=128, until=1e9, keep_checkpoints=1, quiet=True).until == 1e9
    again = veldt.resume(run, quiet=True)
    assert again.until == 1e9 and again.summary["steps"] >= 128
    changes = {"steps": 128, "until": 1e9, "keep_checkpoints": 1}
    after = config(run)
    assert after["resolved"]["run"] == before["resolved"]["run"] | changes
    assert after["given"]["run"] == before["given"]["run"] | changes
    assert after.pop("replaced") == [{"steps": 64, "until": None, "keep_checkpoints": 3}]
    for whole in (before, after):
        del whole["resolved"]["run"], whole["given"]["run"]
    assert before == after
    assert veldt.resume(run, until=None, quiet=True).until is None
    assert veldt.resume(run, quiet=True).until is None


def test_a_target_that_is_set_anew_is_not_reached_yet(run: Path) -> None:
    """And that the earlier one was, is not said of it."""
    reached = veldt.resume(run, steps=20_000, until=-1e9, quiet=True)
    assert reached.reason == "until" and reached.summary["solved_at_seconds"] is not None
    same = veldt.resume(run, quiet=True)
    assert same.summary["solved_at_seconds"] == reached.summary["solved_at_seconds"]
    higher = veldt.resume(run, steps=reached.summary["steps"] + 1, until=1e9, quiet=True)
    assert higher.reason == "steps" and higher.summary["solved_at_seconds"] is None
    assert veldt.resume(run, until=None, quiet=True).summary["solved_at_seconds"] is None


def test_a_resume_with_fewer_steps_than_are_done(run: Path) -> None:
    steps = json.loads((run / "summary.json").read_text())["steps"]
    before = config(run)
    with pytest.raises(veldt.UsageError, match=f"--steps is 10, but {steps} are done: give more"):
        veldt.resume(run, steps=10, quiet=True)
    assert config(run) == before
    # The number it was trained with is no request for fewer, by however little it was passed.
    assert veldt.resume(run, steps=64, quiet=True).reason == "steps"


def test_a_resume_with_other_versions_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And goes on: `reproduce` names it as a cause."""
    capsys.readouterr()
    step = veldt.resume(run, steps=128).summary["steps"]
    assert "since the run began" not in capsys.readouterr().err
    written = config(run)
    written["versions"] |= {"gymnasium": "0.1", "nosuch": "3"}
    (run / "config.json").write_text(json.dumps(written))
    veldt.resume(run, steps=192)
    said = (
        f"since the run began: gymnasium was 0.1 and is {gymnasium.__version__}; nosuch was 3 and is missing; what "
        "follows may differ from what it would have been"
    )
    assert said in " ".join(capsys.readouterr().err.split())
    directory = RunDirectory(run)
    events = [
        (event["step"], event["text"]) for event in directory.read_events() if event["kind"] == "versions"
    ]
    assert events == [(step, said)]
    (run / "config.json").write_text(json.dumps(config(run) | {"versions": {}}))
    result = veldt.reproduce(run, run_dir=run.with_name("again"), quiet=True)
    assert "the run was resumed with other versions or on another processor" in str(result.cause)
