"""A value of a wrong type is one sentence that names the setting, the value and what is allowed, whatever its type."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import veldt
from veldt.errors import UsageError
from veldt.networks.own import NO_PARTS
from veldt.recipes import find
from veldt.recipes.configure import configure
from veldt.recipes.overrides import with_settings
from veldt.setting_metadata import check_type
from veldt.setting_text import as_words

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
        (math.inf, float | str, "a finite number"),  # not "or a string": no schedule was meant
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
    ("value", "hint", "expected"),
    [
        (np.int64(5), int, 5),
        (np.uint8(5), int | None, 5),
        (np.int64(5), float, 5),
        (np.float32(1e-3), float, 1e-3),
        (np.float16(0.1), float | str, 0.1),
        (np.float64(0.5), float | str, 0.5),
        (Fraction(1, 2), float, 0.5),
        (np.True_, bool, True),
        ((np.int64(8), 8), tuple[int, ...], (8, 8)),
        ([np.int64(8)], tuple[int, ...], [8]),
    ],
)
def test_numbers_of_other_libraries_become_those_of_python(value: Any, hint: Any, expected: Any) -> None:
    got = check_type("--name", value, hint)
    assert got == expected and type(got) is type(expected)
    assert not isinstance(got, tuple | list) or {type(part) for part in got} == {int}


@pytest.mark.parametrize(
    ("value", "hint", "allowed"),
    [
        (np.float32("nan"), float, "a finite number"),
        (np.float64("inf"), float | None, "a finite number"),
        (np.float64(5.0), int, "a whole number (an int)"),
        (np.True_, int, "a whole number (an int)"),
        (np.int64(1), bool, "True or False"),
        (Fraction(10**400), float, "a finite number"),
    ],
)
def test_numbers_of_other_libraries_have_the_same_limits(value: Any, hint: Any, allowed: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_type("--name", value, hint)
    assert str(refused.value).startswith("--name is ") and str(refused.value).endswith(
        f": it must be {allowed}"
    )


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        (2**63, int, "9223372036854775808: it must be less than 2^63"),
        (10**400, int, "a number of 401 digits: it must be less than 2^63"),
        (10**400, float | None, "a number of 401 digits: it must be less than 2^63"),
        (-(10**400), float | str, "a number of 401 digits: it must be more than -2^63"),
        (-(10**5000), int, "a number of 5,001 digits: it must be more than -2^63"),
        (10**5000, str, "a number of 5,001 digits: it must be a string"),
        (
            (64, 10**5000),
            tuple[int, ...],
            "a tuple with a number of more than 4,300 digits: it must be less than 2^63",
        ),
    ],
    ids=itertools.count(),
)
def test_a_number_beyond_any_counter_is_refused_in_a_sentence(value: Any, said: str, hint: Any) -> None:
    with pytest.raises(UsageError) as refused:
        check_type("--name", value, hint)
    assert str(refused.value) == f"--name is {said}"


def test_numpys_numbers_are_settings_of_a_run_and_arguments(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "steps": np.int64(64),
        "num_envs": 4.0,
        "learning_rate": np.float32(1e-3),
        "shared": np.False_,
        "hidden": np.array([8, 8]),
    }
    run = veldt.train(
        "a2c", env="CartPole-v1", run_dir=tmp_path / "run", log="none", device="cpu", quiet=True, **given
    )
    config = json.loads((run.path / "config.json").read_text())
    assert config["given"]["run"]["steps"] == config["resolved"]["run"]["steps"] == 64
    assert config["given"]["learn"] == {"learning_rate": 1e-3, "shared": False}
    assert config["given"]["network"] == {"hidden": [8, 8]}
    assert [type(config[values]["envs"]["num_envs"]) for values in ("given", "resolved")] == [int, int]
    resumed = veldt.resume(run.path, steps=128.0, until=np.float32(1e6), quiet=True)
    assert resumed.summary["steps"] >= 128
    stored = (run.path / "config.json").read_text()
    assert '"steps": 128,' in stored and '"steps": 128.0' not in stored
    numbers: dict[str, Any] = {"episodes": np.int64(2), "seed": np.int64(3)}
    assert len(veldt.evaluate(run.path, **numbers).scores) == 2


def test_numpys_numbers_are_keyword_arguments_of_an_env() -> None:
    given = {
        "is_slippery": np.bool_(False),
        "sizes": [{"g": np.float32(9.8)}, (np.int64(2),)],
        "map_name": "4x4",
    }
    request = configure("ppo", lambda **kwargs: None, given, None, NO_PARTS, {})  # type: ignore[arg-type, return-value]
    expected = {"is_slippery": False, "sizes": [{"g": 9.8}, (2,)], "map_name": "4x4"}
    assert request.config.env_kwargs == request.source.kwargs == expected
    assert json.dumps(request.config.env_kwargs)


@pytest.mark.parametrize("value", [64.5, np.array([64.0]), np.array([[64]]), np.array(["a"]), math.inf])
def test_only_whole_numbers_take_the_place_of_ints(value: Any) -> None:
    for name in ("num_envs", "hidden"):
        with pytest.raises(UsageError, match=f"^--{name.replace('_', '-')} is "):
            with_settings(find("ppo").config("CartPole-v1"), {name: value})


def test_keyword_arguments_of_an_env_can_be_read_again(in_tmp: Path) -> None:
    for number in (10**400, 10**5000):
        with pytest.raises(UsageError, match=r"--env-kwargs is .* cannot be written into the run as JSON"):
            veldt.train("ppo", env="CartPole-v1", env_kwargs={"size": number}, quiet=True)
    assert not Path("runs").exists()


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


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("layer_norm", True, ["--layer-norm"]),
        ("layer_norm", False, ["--no-layer-norm"]),
        ("hidden", (64, 32), ["--hidden", "64", "32"]),
        ("env_kwargs", {"a": True}, ["--env-kwargs", '{"a": true}']),
        ("target_kl", None, ["--target-kl", "none"]),
        ("gamma", 0.99, ["--gamma", "0.99"]),
    ],
)
def test_a_setting_as_words_of_a_command(name: str, value: object, words: list[str]) -> None:
    assert as_words(name, value) == words
