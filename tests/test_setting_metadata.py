"""A value of a wrong type is one sentence that names the setting, the value and what is allowed, whatever its type."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import pytest

import veldt
from veldt.errors import UsageError
from veldt.setting_metadata import check_type

Level = Literal["low", "high"]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, bool),
        (3, int),
        (3, float),
        ("linear:1:0", float | str),
        ("low", Level | None),
        (None, Level | None),
        ((), tuple[int, ...]),
        ([8, 8], tuple[int, ...]),
        ((1, 0.5), tuple[int, float]),
        ({"a": [1]}, dict[str, Any]),
        (Path("run"), str | Path),
    ],
)
def test_values_of_the_declared_type(value: Any, hint: Any) -> None:
    check_type("--name", value, hint)


@pytest.mark.parametrize(
    ("value", "hint", "allowed"),
    [
        ("no", bool, "True or False"),
        (1, bool, "True or False"),
        (True, int, "a whole number (an int)"),
        (1e6, int, "a whole number (an int)"),
        (True, float, "a finite number"),
        (math.inf, float, "a finite number"),
        ("1", float, "a finite number"),
        (None, float | str, "a finite number or a string"),
        ([1], float | None, "a finite number or None"),
        (5, str, "a string"),
        (5, str | None, "a string or None"),
        (True, Literal[1, 2], "one of 1, 2"),
        (["low"], Level | None, "one of low, high or None"),
        (8, tuple[int, ...], "a tuple, each part of it a whole number (an int)"),
        ((8, True), tuple[int, ...], "a tuple, each part of it a whole number (an int)"),
        ((1,), tuple[int, float], "a tuple of 2, each part of it a whole number (an int) or a finite number"),
        ({1: 2}, dict[str, Any], "a dict, each key of it a string"),
    ],
)
def test_values_of_another_type(value: Any, hint: Any, allowed: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_type("--name", value, hint)
    assert str(refused.value) == f"--name is {value!r}: it must be {allowed}"


@pytest.mark.parametrize(
    ("recipe", "argument", "value"),
    [
        ("dqn", "double", "no"),
        ("ppo", "epochs", True),
        ("ppo", "seed", True),
        ("ppo", "learning_rate", None),
        ("ppo", "learning_rate", [1e-3]),
        ("ppo", "ent_coef", True),
        ("ppo", "until", "475"),
        ("ppo", "log", 5),
        ("ppo", "callback", 5),
        ("ppo", "device", 0),
        ("ppo", "hidden", "64"),
        ("ppo", "core", 5),
        ("ppo", "env_kwargs", 3),
        ("ppo", "env_kwargs", {1: 2}),
        ("ppo", "run_dir", 5),
        ("ppo", "algorithm", 5),
        ("ppo", "cluster", 5),
        ("ppo", "quiet", "no"),
        ("ppo", "loggers", 5),
        (5, None, None),
        (["ppo"], None, None),
    ],
)
def test_no_argument_of_train_has_another_type(
    recipe: Any, argument: str | None, value: Any, in_tmp: Path
) -> None:
    arguments: dict[str, Any] = {} if argument is None else {argument: value}
    with pytest.raises(UsageError) as refused:
        veldt.train(recipe, env="CartPole-v1", **arguments)
    name, given = (argument, value) if argument else ("recipe", recipe)
    assert name.replace("_", "-") in str(refused.value).replace("_", "-") and f"{given}" in str(refused.value)
    assert not Path("runs").exists()


def test_no_argument_of_other_functions_has_another_type() -> None:
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (veldt.resume, {}, "^run is 5: "),
        (veldt.load, {}, "^run is 5: "),
        (veldt.load, {"trust": "no"}, "^--trust is 'no': "),
        (veldt.load, {"network": 5}, "^network is 5: "),
        (veldt.load, {"best": "no"}, "^--best is 'no': "),
        (veldt.load, {"device": 0}, "^--device is 0: "),
        (veldt.evaluate, {"seed": "1"}, "^--seed is '1': "),
        (veldt.evaluate, {"episodes": 1.5}, r"^--episodes is 1\.5: "),
        (veldt.evaluate, {"greedy": 1}, "^--greedy is 1: "),
        (veldt.evaluate, {"starts": 5}, "^--starts is 5: "),
        (veldt.record_starts, {"starts": "5"}, "^--starts is '5': "),
        (veldt.record_starts, {"seed": None}, "^--seed is None: "),
    ]
    for function, arguments, message in calls:
        with pytest.raises(UsageError, match=message):
            function(5, **arguments)
