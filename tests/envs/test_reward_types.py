"""Rewards may have every type that is a number, and ends of episodes every type that says yes or no."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from slots import make, settings_for

from environments import Scripted
from veldt.envs.from_gymnasium.gymnasium_step_env import GymnasiumStepEnv


class Rewarding(Scripted):
    """Rewards of another type, in every step."""

    def __init__(self, as_type: Callable[[float], Any]) -> None:
        super().__init__([(200, "terminated")])
        self._as_type = as_type

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, self._as_type(float(reward)), *rest


def as_it_is(reward: float) -> float:
    return reward


def started(as_type: Callable[[float], Any]) -> list[float]:
    """The scores of four envs after their random start steps."""
    envs = make(settings_for(lambda: Rewarding(as_type), random_start_steps=20), 2)
    try:
        return [prefix.score for prefix in envs.start().values()]
    finally:
        envs.close()


@pytest.mark.parametrize("as_type", [np.array, np.float64, Fraction])
def test_random_start_steps(as_type: Callable[[float], Any]) -> None:
    scores = started(as_type)
    assert scores == started(as_it_is) and any(scores)


def test_booleans_in_random_start_steps() -> None:
    assert started(np.bool_) == started(bool) and any(started(bool))


def test_a_reward_beyond_float32_is_stored_without_a_remark_of_numpys() -> None:
    # The stepper says which env and step. In a process of its own: pytest replaces filters of warnings.
    code = "from test_reward_types import started\nstarted(lambda reward: 1e300)"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the reward is an infinite number, or one that float32 does not have" in done.stderr
    assert "RuntimeWarning" not in done.stderr


class Ending(Scripted):
    """Returns this for `terminated` in every step."""

    def __init__(self, terminated: Any) -> None:
        super().__init__([(200, "terminated")])
        self._terminated = terminated

    def step(self, action: Any) -> Any:
        observation, reward, _, *rest = super().step(action)
        return observation, reward, self._terminated, *rest


def flag_for(terminated: Any) -> bool:
    env: gymnasium.Env[Any, Any] = Ending(terminated)
    stepped = GymnasiumStepEnv(env)
    rows = [np.zeros((1, *field.shape), field.dtype) for field in stepped.spec.observation.values()]
    stepped.reset(1, rows, 0)
    flag = stepped.step(0, rows, 0)[1]
    assert type(flag) is bool
    return flag


@pytest.mark.parametrize("yes", [True, np.True_, 1, np.array(True), np.array([True])])
@pytest.mark.parametrize("no", [False, np.False_, 0, None, np.array([False])])
def test_ends_of_episodes(yes: Any, no: Any) -> None:
    assert flag_for(yes) and not flag_for(no)


@pytest.mark.parametrize(
    ("terminated", "shown"),
    [("no", "'no'"), (np.zeros(2, bool), r"an array \[2\]"), ([], r"\[\]"), ({}, "{}")],
)
def test_what_does_not_say_whether_an_episode_has_ended(terminated: Any, shown: str) -> None:
    with pytest.raises(
        ValueError, match=f"terminated is {shown}: step\\(\\) must return True or False for it"
    ):
        flag_for(terminated)
