"""The three programs of examples/: each runs, and learns."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from documentation import EXAMPLES

NAMES = ["own_loop_a3c", "own_loop_apex", "own_loop_impala"]


@pytest.fixture
def main(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(request.param).main


@pytest.mark.parametrize("main", NAMES, indirect=True)
def test_it_runs(main: Any) -> None:
    done = main(episodes=30)
    assert done.reason in ("returned", "stopped") and set(done.returned) <= {"actor", "learner"}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 80


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("main", NAMES, indirect=True)
def test_it_learns_cartpole(main: Any) -> None:
    done = main(solved=120.0)
    assert done.reason == "stopped" and "the mean return of 100 episodes is" in done.why
