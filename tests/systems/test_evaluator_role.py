"""When the role of the evaluator plays, when it evaluates, and that it is never taken for hung."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from veldt.systems.roles import evaluator
from veldt.systems.roles.evaluator import run_evaluator


class Control:
    """Of a role; at each of its sleeps, of a second, something happens in the run, and after the last it must end."""

    def __init__(self, run: Run, happens: list[Callable[[Run], None]]) -> None:
        self.run, self.happens, self.heartbeats, self.restart_count = run, happens, 0, 0
        self.now_s = 100.0

    @property
    def stopping(self) -> bool:
        return not self.happens

    def heartbeat(self) -> None:
        self.heartbeats += 1

    def sleep(self, seconds: float) -> None:
        self.now_s += 1.0
        self.happens.pop(0)(self.run)


class Run:
    """The run's steps and version of the weights, and what the evaluator did: "play" or "evaluate", with the steps."""

    def __init__(self) -> None:
        self.steps, self.version, self.done = 0, 0, list[tuple[str, int]]()
        self.closed = False

    def pull_if_newer(self) -> bool:
        return self.version >= 0

    def play_steps(self) -> None:
        self.done.append(("play", self.steps))

    def close(self) -> None:
        self.closed = True


def nothing(run: Run) -> None:
    pass


def step(run: Run) -> None:
    run.steps += 10


def update(run: Run) -> None:
    run.version += 1


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Run, Control]]:
    def follow(
        *happens: Callable[[Run], None], share: float = 1.0, every: int = 0, **began: int
    ) -> tuple[Run, Control]:
        run = Run()
        for name, value in began.items():
            setattr(run, name, value)
        monkeypatch.setattr(evaluator, "PulledNetwork", lambda *_: run)
        monkeypatch.setattr(evaluator, "_Player", lambda *_: run)
        monkeypatch.setattr(evaluator, "_evaluate", lambda *_: run.done.append(("evaluate", run.steps)))
        monkeypatch.setattr(evaluator, "_rest_until", lambda control, end: control.sleep(0.0))
        control: Any = Control(run, list(happens))
        clock = SimpleNamespace(monotonic=lambda: control.now_s, thread_time=lambda: control.now_s)
        monkeypatch.setattr(evaluator, "time", clock)
        settings = SimpleNamespace(run=SimpleNamespace(evaluate_every=every))
        plan: Any = SimpleNamespace(config=settings, spec=None, network=None, share=share, evaluated_at=0)
        weights: Any = None
        limiter: Any = run
        run_evaluator(control, plan, weights, limiter)
        return run, control

    return follow


@pytest.mark.parametrize("began", [{}, {"steps": 500, "version": 7}], ids=["begun", "resumed"])
def test_it_does_not_play_before_the_run_moves(follow: Any, began: dict[str, int]) -> None:
    """While actors are being started it would play tens of thousands of episodes by the first policy."""
    run, control = follow(*[nothing] * 50, **began)
    assert run.done == [] and control.heartbeats >= 50 and run.closed


@pytest.mark.parametrize(("moves", "steps"), [(step, 10), (update, 0)])
def test_it_plays_until_the_run_stands_still(follow: Any, moves: Any, steps: int) -> None:
    """A run whose updates take seconds is none: the evaluator has its share of a core also between two updates."""
    run, _ = follow(nothing, moves, *[nothing] * 4, step, *[nothing] * 50)
    before = [("play", steps)] * 5
    assert run.done[:5] == before and set(run.done[5:]) == {("play", steps + 10)} and len(run.done) < 20


def test_it_waits_for_the_first_weights(follow: Any) -> None:
    run, control = follow(step, step, update, step, nothing, version=-1)
    assert run.done == [("play", 30)] and control.heartbeats >= 4


def test_it_evaluates_when_that_is_due(follow: Any) -> None:
    """Each time the steps pass a multiple, whether it plays meanwhile or not."""
    run, _ = follow(step, step, step, nothing, step, step, share=0.0, every=20)
    assert run.done == [("evaluate", 20), ("evaluate", 40)]
