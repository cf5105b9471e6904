"""What the user's function returns must be one environment for each env, and the function one that can be sent."""

from __future__ import annotations

import functools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import pytest
from slots import make, settings_for

from environments import Scripted
from veldt.envs.arrangement import probe_spec
from veldt.envs.from_gymnasium.gymnasium_step_env import GymnasiumStepEnv
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.errors import EnvError, UsageError

THE_ONLY = Scripted([(10, "terminated")])


def the_only() -> gymnasium.Env[Any, Any]:
    return THE_ONLY


def the_only_wrapped() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(THE_ONLY, 5)


@pytest.mark.parametrize("function", ["the_only", "the_only_wrapped"])
@pytest.mark.parametrize("processes", [0, 2])
def test_the_same_environment_for_several_envs_is_refused(function: str, processes: int) -> None:
    """Each would be in the middle of the others' episodes."""
    with pytest.raises(EnvError, match=r"the same Scripted object .*make a new environment in each call"):
        make(settings_for(f"{__name__}:{function}", num_envs=4), 2, processes=processes)


def test_it_may_be_used_again_after_it_was_closed() -> None:
    for _ in range(2):
        make(settings_for(f"{__name__}:the_only", num_envs=1), 2).close()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (THE_ONLY, r"env is an object of Scripted, .*env=lambda: \.\.\."),
        (gymnasium.vector.VectorEnv(), "env is an object of VectorEnv, .* a single one"),
        (None, "env is None: it must be a Gymnasium id"),
    ],
)
def test_an_environment_is_no_function_that_makes_one(env: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(env)


def test_gymnasium_s_checker_can_be_asked_for() -> None:
    env = resolve("CartPole-v1", {"disable_env_checker": False}).make()
    assert "PassiveEnvChecker" in str(env)


def test_environments_are_made_in_several_threads() -> None:
    def make_and_close() -> None:
        for _ in range(300):
            GymnasiumStepEnv(Scripted([(10, "terminated")])).close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(make_and_close) for _ in range(3)]:
                done.result()
    finally:
        sys.setswitchinterval(before)


_SPACES: dict[str, list[gymnasium.Space[Any]]] = {
    "observation_space": [gymnasium.spaces.Box(-1.0, 1.0, (size,)) for size in (3, 4)],
    "action_space": [gymnasium.spaces.Discrete(size) for size in (2, 3)],
}


class Changing(Scripted):
    """From the second one on, one of its spaces is another."""

    made = 0

    def __init__(self, which: str) -> None:
        super().__init__([(10, "terminated")])
        setattr(self, which, _SPACES[which][min(Changing.made, 1)])
        Changing.made += 1


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (
            "observation_space",
            r"its observations are float32 \[4\], and those of an earlier one are float32 \[3\]",
        ),
        (
            "action_space",
            r"its actions are discrete of 3 choices, and those of an earlier one are discrete of 2",
        ),
    ],
)
def test_spaces_that_change_are_refused(which: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions of the third choice would never be tried, without a word."""
    monkeypatch.setattr(Changing, "made", 0)
    with pytest.raises(EnvError, match=said):
        make(settings_for(functools.partial(Changing, which), num_envs=2), 2)


def test_a_function_that_cannot_be_sent_is_one_sentence() -> None:
    def function(lock: Any) -> gymnasium.Env[Any, Any]:
        return Scripted([(10, "terminated")])

    with pytest.raises(
        UsageError, match=r"cannot be sent to the processes of a run \(TypeError: cannot pickle"
    ):
        resolve(functools.partial(function, threading.Lock()))


class FailsWhenClosed(Scripted):
    def close(self) -> None:
        raise RuntimeError("still connected")


def test_the_first_close_is_named() -> None:
    with pytest.raises(EnvError, match="failed when it was closed: RuntimeError: still connected"):
        probe_spec(resolve(lambda: FailsWhenClosed([(10, "terminated")])), AtariConfig())


class OfNoSpace(Scripted):
    """Its observation space is none that veldt knows, and its `close` notes itself."""

    closed = 0

    def __init__(self) -> None:
        super().__init__([(10, "terminated")])
        self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))  # type: ignore[assignment]

    def close(self) -> None:
        OfNoSpace.closed += 1
        raise RuntimeError("of the close")


def test_one_that_is_refused_is_closed() -> None:
    with pytest.raises(UsageError, match="is not supported"):
        GymnasiumStepEnv(OfNoSpace())
    assert OfNoSpace.closed == 1


def test_a_vector_of_envs_is_refused() -> None:
    source = resolve(functools.partial(gymnasium.make_vec, "CartPole-v1", num_envs=2))
    with pytest.raises(
        UsageError, match=r"it must return a single environment, of which --num-envs are made$"
    ):
        source.make()


class NeedsSize(Scripted):
    def __init__(self, size: int, *, level: int) -> None:
        super().__init__([(size, "terminated")])


def makes_one_without_its_size() -> gymnasium.Env[Any, Any]:
    return NeedsSize()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "kwargs", "missing"),
    [
        (
            NeedsSize,
            {"size": 3},
            r"needs the argument 'level', and --env-kwargs is {'size': 3}: give it there",
        ),
        (
            lambda size, level: None,
            {},
            r"needs the arguments 'size' and 'level', and --env-kwargs is {}: give",
        ),
    ],
)
def test_a_missing_argument_is_one_of_env_kwargs(make: Any, kwargs: dict[str, Any], missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        resolve(make, kwargs).make()


def test_a_missing_argument_of_another_call_is_the_environment_s_error() -> None:
    with pytest.raises(TypeError, match=r"NeedsSize.__init__\(\) missing 1 required positional argument"):
        resolve(makes_one_without_its_size).make()
