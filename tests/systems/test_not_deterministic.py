"""Resume notices an environment that is not deterministic, and the run continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import veldt
from run_state import SMALL
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import read_episodes


@pytest.mark.parametrize("env", ["not_deterministic", "fails_when_replayed"])
@pytest.mark.parametrize(
    "where",
    [{"env_backend": "in-process"}, {"env_backend": "workers", "processes": 2}],
    ids=["in-process", "workers"],
)
def test_resume_notices_an_environment_that_is_not_deterministic(
    where: dict[str, Any], env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = SMALL | where | {"num_envs": 3, "batch_size": 60}
    run = veldt.train(
        "ppo", env=f"faulty_envs:{env}", run_dir=tmp_path / "run", quiet=True, steps=100, **settings
    )
    before = len(RunDirectory.open(run.path).read_events())
    again = veldt.resume(run.path, quiet=True, steps=300)
    assert again.reason == "steps" and again.summary["steps"] >= 300
    notes = [
        event for event in RunDirectory.open(run.path).read_events()[before:] if event["kind"] == "resume"
    ]
    told = [event["text"] for event in notes if "has changed since, or is not deterministic" in event["text"]]
    assert len(told) == 3 and "env 0 " in told[0], notes
    # Each broken-off episode is begun anew, not scored: only whole games are in the list.
    lengths = [record.length for record in read_episodes(run.path)]
    assert lengths and set(lengths) == {50}


def test_resume_of_a_deterministic_environment_has_no_warning(tmp_path: Path) -> None:
    settings = SMALL | {"env_backend": "in-process"}
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, steps=100, **settings)
    veldt.resume(run.path, quiet=True, steps=300)
    assert not [e for e in RunDirectory.open(run.path).read_events() if "not deterministic" in e["text"]]
