"""Unsupported observation spaces are refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from veldt.envs.from_gymnasium.observation_codec import ObservationCodec
from veldt.errors import UsageError

NUMBER = spaces.Box(-1, 1, (1,), np.float32)

REFUSED: dict[str, tuple[spaces.Space[Any], str]] = {
    "none": (None, "observation_space is None: set it to a space of Gymnasium"),  # type: ignore[dict-item]
    "empty": (spaces.Dict({}), "is empty: give it at least one field"),
    "empty inside": (spaces.Dict({"a": spaces.Dict({})}), "is empty"),
    "name is a number": (spaces.Dict({1: NUMBER}), "is named 1: names must be strings"),  # type: ignore[dict-item]
    "name is empty": (spaces.Dict({"": NUMBER}), "is named '': names must be strings and not empty"),
    "same name": (
        spaces.Dict({"a/b": NUMBER, "a": spaces.Dict({"b": NUMBER})}),
        "two fields of the observation space are named 'a/b'",
    ),
    "shape without a number": (
        spaces.Box(-1, 1, (0,), np.float32),
        r"space, Box\(.*\), has no number in it \(shape \(0,\)\): give it at least one, or leave it out",
    ),
    "image without a row": (
        spaces.Box(0, 255, (0, 8, 3), np.uint8),
        r"no number in it \(shape \(0, 8, 3\)\)",
    ),
    "no choice": (spaces.MultiDiscrete(np.zeros(0, np.int64)), "has no number in it"),
    "a field without a number": (
        spaces.Dict({"a": NUMBER, "b": spaces.Box(-1, 1, (0,), np.float32)}),
        "the observation space 'b', Box.* has no number in it",
    ),
    "no numbers": (
        spaces.Dict({"a": spaces.Sequence(NUMBER)}),
        r"the observation space 'a', Sequence\(.*\), is not supported: allowed are Box",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_spaces_are_refused(name: str) -> None:
    space, sentence = REFUSED[name]
    with pytest.raises(UsageError, match=sentence):
        ObservationCodec(space)


def test_a_slash_alone_is_a_name_like_any_other() -> None:
    codec = ObservationCodec(spaces.Dict({"a/b": NUMBER, "a": spaces.Dict({"c": NUMBER})}))
    rows = [np.zeros((1, 1), np.float32) for _ in codec.spec]
    codec.write({"a/b": [0.25], "a": {"c": [0.5]}}, rows, 0)
    assert {name: row.item() for name, row in zip(codec.spec, rows, strict=True)} == {"a/b": 0.25, "a/c": 0.5}


def test_a_scalar_is_an_array_of_one_number() -> None:
    codec = ObservationCodec(spaces.Dict({"scalar": spaces.Box(-1, 1, (), np.float32), "vector": NUMBER}))
    rows = [np.zeros((1, *spec.shape), np.float32) for spec in codec.spec.values()]
    codec.write({"scalar": np.float32(0.25), "vector": [0.5]}, rows, 0)
    assert [row.tolist() for row in rows] == [[[0.25]], [[0.5]]]
    codec = ObservationCodec(spaces.Box(-1, 1, (), np.float32))
    codec.write(0.25, rows[1:], 0)
    assert codec.spec[""].shape == (1,) and rows[1].tolist() == [[0.25]]
    with pytest.raises(ValueError, match=r"has shape \(2,\), but the observation space declares \(\)"):
        codec.write([0.25, 0.5], rows[1:], 0)


def test_a_number_beyond_float32_is_stored_without_a_remark_of_numpys() -> None:
    # The stepper finds it, and says which env and step. In a process of its own: pytest replaces filters of warnings.
    code = (
        "import numpy as np\n"
        "from gymnasium import spaces\n"
        "from veldt.envs.from_gymnasium.observation_codec import ObservationCodec\n"
        "rows = [np.zeros((1, 2), np.float32)]\n"
        "ObservationCodec(spaces.Box(-np.inf, np.inf, (2,), np.float64)).write(np.array([1e300, 0]), rows, 0)\n"
        "print(rows[0].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("[[inf, 0.0]]\n", "")


OUT_OF_RANGE: dict[str, tuple[spaces.Space[Any], Any]] = {
    "below": (spaces.Discrete(5), -1),
    "above": (spaces.Discrete(5), 5),
    "below the start": (spaces.Discrete(5, start=2), 1),
    "one of several": (spaces.MultiDiscrete([2, 3]), np.array([2, 0])),
    "negative": (spaces.MultiDiscrete([2, 3]), np.array([0, -1])),
    "too few": (spaces.MultiDiscrete([3, 3]), [1]),
    "too few bits": (spaces.MultiBinary(2), [1]),
    "no bit": (spaces.MultiBinary(2), np.array([0, 2], np.int8)),
    "in a tuple": (spaces.Tuple([NUMBER, spaces.Discrete(2)]), (np.zeros(1, np.float32), -1)),
    "in a dict": (spaces.Dict({"state": spaces.Discrete(2)}), {"state": -1}),
    "too many": (spaces.Tuple([spaces.Discrete(2)]), (0, 1)),
}


@pytest.mark.parametrize("pixels", [[-1, 300, 3], [1.5, np.nan, 3.0], [0, 256, 0], [0, 0.5, 1]])
@pytest.mark.parametrize("is_dict", [False, True])
def test_numbers_that_a_pixel_cannot_have_are_refused(pixels: list[float], is_dict: bool) -> None:
    """NumPy would store 256 as 0, and an image that is scaled to [0, 1] as nothing but 0."""
    box: spaces.Space[Any] = spaces.Box(0, 255, (3,), np.uint8)
    codec = ObservationCodec(spaces.Dict({"image": box}) if is_dict else box)
    rows = [np.zeros((1, 3), np.uint8)]
    codec.write({"image": [0, 255, 7.0]} if is_dict else [0, 255, 7.0], rows, 0)
    assert rows[0].tolist() == [[0, 255, 7]]
    with pytest.raises(
        ValueError, match="fractions, or numbers outside of 0 to 255, and its space is of uint8"
    ):
        codec.write({"image": pixels} if is_dict else pixels, rows, 0)


@pytest.mark.parametrize(
    ("box", "largest"),
    [
        (spaces.Box(0, 1, (10, 10, 4), np.uint8), 1.0),
        (spaces.Box(0, np.array([10, 5, 2], np.uint8), dtype=np.uint8), 10.0),
        (spaces.Box(0, 1, (2,), np.bool_), 1.0),
        (spaces.Box(-3, 2, (2,), np.int64), 3.0),
        (spaces.Box(-1, np.inf, (2,)), np.inf),
        (spaces.Box(-np.finfo(np.float32).max, 1, (2,)), np.inf),
    ],
)
def test_the_largest_number_within_the_bounds_is_known(box: spaces.Box, largest: float) -> None:
    assert ObservationCodec(box).spec[""].largest == largest


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_discrete_observation_outside_its_space_is_refused(name: str) -> None:
    """Gymnasium's encoding has no check: -1 would be the last state, and 3 of 2 the next number's first."""
    space, observation = OUT_OF_RANGE[name]
    codec = ObservationCodec(space)
    rows = [np.zeros((1, *spec.shape), np.float32) for spec in codec.spec.values()]
    with pytest.raises(ValueError, match="which is not in its space"):
        codec.write(observation, rows, 0)


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        (
            {"arm": {"angle": [0.0]}},
            "the observation 'arm' lacks the field 'speed', which its space declares",
        ),
        ({}, "the observation lacks the field 'arm', which its space declares"),
        (
            {"arm": [0.0, 0.0]},
            "the observation 'arm' is of type list, and its space is a Dict: return a dictionary",
        ),
        (None, "the observation is of type NoneType, and its space is a Dict"),
    ],
)
def test_a_missing_field_is_named(observation: Any, sentence: str) -> None:
    codec = ObservationCodec(spaces.Dict({"arm": spaces.Dict({"angle": NUMBER, "speed": NUMBER})}))
    rows = [np.zeros((1, 1), np.float32) for _ in codec.spec]
    with pytest.raises(ValueError, match=sentence):
        codec.write(observation, rows, 0)


@pytest.mark.parametrize(
    ("space", "named"),
    [(spaces.Tuple(()), "space is"), (spaces.Dict(a=spaces.Tuple(()), b=spaces.Discrete(2)), "space 'a' is")],
)
def test_an_empty_tuple_is_named(space: spaces.Space[Any], named: str) -> None:
    with pytest.raises(
        UsageError, match=rf"the observation {named} an empty Tuple: give it at least one part"
    ):
        ObservationCodec(space)


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]", "timedelta64[s]"])
@pytest.mark.parametrize("declared", [np.float32, np.uint8])
def test_numbers_that_are_not_real_are_refused(dtype: str, declared: Any) -> None:
    codec = ObservationCodec(spaces.Box(0, 200, (2,), declared))
    with pytest.raises(ValueError, match=rf"has dtype {dtype.partition('[')[0]}.* does not convert to"):
        codec.encoded(np.ones(2, np.int64).astype(dtype))
