"""What a user sees, and what a request to stop does, while a phase of a role of this process takes long."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
from child_runs import trained

from veldt.systems.driver import long_phase
from veldt.systems.driver.long_phase import LongPhase

SLOW = '''
import time
import gymnasium as gym


class Slow(gym.Env):
    """A step takes a tenth of a second: a rollout of the run below 26 seconds."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        time.sleep(0.1)
        return self.observation_space.sample() * 0, 1.0, False, False, {}
'''


class FakeMonitor:
    def __init__(self, steps: int = 0) -> None:
        self.steps, self.refreshed, self.notes = steps, 0, list[str]()

    def refresh(self) -> None:
        self.refreshed += 1

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still."""
    now = [100.0]
    monkeypatch.setattr(long_phase.time, "monotonic", lambda: now[0])
    return now


def phase_of(monitor: FakeMonitor, stop: threading.Event) -> LongPhase:
    return LongPhase(cast(Any, monitor), stop)


def test_the_display_is_refreshed_a_few_times_a_second(clock: list[float]) -> None:
    monitor = FakeMonitor()
    phase = phase_of(monitor, threading.Event())
    phase.begin()
    for _ in range(100):
        clock[0] += 0.01
        phase.look()
    assert 3 <= monitor.refreshed <= 4 and not monitor.notes


def test_a_request_with_nothing_to_save_ends_the_phase(clock: list[float]) -> None:
    stop = threading.Event()
    phase = phase_of(FakeMonitor(steps=0), stop)
    stop.set()
    phase.begin()
    clock[0] += 1.0
    with pytest.raises(KeyboardInterrupt):
        phase.look()


def test_a_request_says_once_how_long_it_waits(clock: list[float]) -> None:
    monitor, stop = FakeMonitor(), threading.Event()
    phase = phase_of(monitor, stop)
    phase.begin()
    clock[0] += 60.0
    monitor.steps = 64
    phase.end()
    phase.begin()
    clock[0] += 3.0  # a snapshot
    phase.end()
    phase.begin()
    clock[0] += 20.0
    stop.set()
    for _ in range(40):
        phase.look()
        clock[0] += 0.5
    assert monitor.notes == ["the checkpoint follows this rollout and its updates, in about 38s"]


def test_a_rollout_that_is_longer_than_the_last_one(clock: list[float]) -> None:
    monitor, stop = FakeMonitor(steps=64), threading.Event()
    phase = phase_of(monitor, stop)
    stop.set()
    phase.begin()
    for _ in range(20):
        clock[0] += 0.5
        phase.look()
    assert monitor.notes == ["the checkpoint follows this rollout and its updates"]


def test_nothing_is_said_of_a_rollout_while_a_checkpoint_is_written(clock: list[float]) -> None:
    monitor, stop = FakeMonitor(steps=64), threading.Event()
    phase = phase_of(monitor, stop)
    stop.set()
    for _ in range(20):  # polls of a role that waits
        phase.begin()
        clock[0] += 0.5
        phase.look()
        phase.end()
    for _ in range(20):  # between polls
        clock[0] += 0.5
        phase.look()
    assert not monitor.notes


def test_a_slow_first_rollout_is_shown_and_can_be_interrupted(in_tmp: Path) -> None:
    Path("slow.py").write_text(SLOW)
    words = "ppo --env slow:Slow --run-dir run --num-envs 2 --batch-size 256 --env-backend in-process"
    with trained(words, in_tmp) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "no step so far" in line:
                break
        else:
            pytest.fail("no line of progress in the first rollout")
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and time.monotonic() - asked < 12.0, errors
    assert "Traceback" not in errors
