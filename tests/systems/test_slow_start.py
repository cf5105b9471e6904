"""What a user sees while a run starts."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from child_runs import trained

from veldt.systems.driver.slow_start import note_if_start_is_slow
from veldt.tracking.progress import Progress

SLOW = """
import time
import gymnasium as gym


class Slow(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

    def reset(self, **options):
        time.sleep(0.8)
        return super().reset(**options)
"""


def test_a_slow_start_is_said_once_and_a_quick_one_is_not() -> None:
    screen = io.StringIO()
    progress = Progress("a run", 100, stream=screen)
    with note_if_start_is_slow(progress, after_s=60.0):
        pass
    assert screen.getvalue() == ""
    with note_if_start_is_slow(progress, after_s=0.01):
        end = time.monotonic() + 10.0
        while not screen.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert screen.getvalue() == "still starting: processes are started, and environments are made and reset\n"


@pytest.mark.timeout(60)
def test_a_run_whose_resets_are_slow_says_so(in_tmp: Path) -> None:
    Path("slow.py").write_text(SLOW)
    words = "ppo --env slow:Slow --run-dir run --num-envs 4 --batch-size 256 --env-backend in-process"
    with trained(words, in_tmp) as process:
        assert process.stderr is not None
        assert any("still starting" in line for line in process.stderr)
