"""One observation, batches as Gymnasium's vector envs return them, and lists of observations are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from veldt.envs.from_gymnasium.observation_codec import ObservationCodec

BOX = spaces.Box(-1, 1, (2,), np.float32)
SPACES: dict[str, spaces.Space[Any]] = {
    "box": BOX,
    "discrete": spaces.Discrete(4, start=-1),
    "choices": spaces.MultiDiscrete([3, 2]),
    "dict": spaces.Dict({"gear": spaces.Discrete(3), "body": spaces.Dict({"speed": BOX})}),
    "tuple first": spaces.Dict({"a pair": spaces.Tuple([spaces.Discrete(2), BOX]), "speed": BOX}),
    "tuple": spaces.Tuple([spaces.Discrete(5), spaces.MultiBinary(3), BOX]),
    "numbers": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
    "tuple of dict": spaces.Tuple([spaces.Dict({"speed": BOX}), spaces.Discrete(2)]),
}
PAIR = SPACES["tuple"]


@pytest.mark.parametrize("name", SPACES)
def test_a_batch_has_the_rows_of_its_observations(name: str) -> None:
    space, codec = SPACES[name], ObservationCodec(SPACES[name])
    space.seed(3)
    several = [space.sample() for _ in range(2)]
    batch = concatenate(space, several, create_empty_array(space, 2))
    assert batch_space(space, 2).contains(batch)
    expected = [codec.encoded(one) for one in several]
    assert all(is_single for _, is_single in expected)
    for given in (batch, several):
        rows, is_single = codec.encoded(given)
        assert not is_single
        for field, row in enumerate(rows):
            np.testing.assert_array_equal(row, np.concatenate([one[field] for one, _ in expected]))


def test_a_list_may_be_the_fields_of_a_tuple() -> None:
    codec, one = ObservationCodec(PAIR), (3, np.array([0, 1, 1], np.int8), np.zeros(2, np.float32))
    rows, is_single = codec.encoded(list(one))
    assert is_single
    np.testing.assert_array_equal(rows[0], codec.encoded(one)[0][0])


@pytest.mark.parametrize(
    ("name", "observation", "sentence"),
    [
        (
            "box",
            np.zeros(3),
            r"^the observation has shape \(3,\), but the observation space declares \(2,\), with",
        ),
        ("box", np.zeros((2, 3, 2)), r"has shape \(2, 3, 2\), but"),
        (
            "box",
            [[1.0], [1.0, 2.0]],
            r"^the observation has parts of different shapes, but .* declares \(2,\)$",
        ),
        ("box", np.zeros((0, 2)), "^the batch has no observations: give at least one$"),
        ("discrete", 7, "^the observation is 7, which is not in its space"),
        ("dict", np.zeros(2), "^the observation is a ndarray, and its space is a Dict: .* body, gear$"),
        ("dict", {"gear": 1}, "^the observation lacks the field 'body'"),
        (
            "dict",
            {"gear": 1, "body": {"speed": np.zeros(3)}},
            r"^the observation 'body/speed' has shape \(3,\)",
        ),
        (
            "dict",
            {"gear": 1, "body": {"speed": np.zeros((4, 2))}},
            "^the fields of the observation have different numbers of observations: 'body' has 4, 'gear' has no batch",
        ),
        ("dict", [{"gear": 1}], "lacks the field 'body'"),
        ("dict", [], "^the batch has no observations"),
        ("tuple", 3, "^the observation is a int, and its space is a Tuple of 3"),
        (
            "tuple",
            (3, np.zeros(3, np.int8)),
            "^the observation is a tuple of 2, and its space is a Tuple of 3",
        ),
        ("tuple", (3, np.zeros(4, np.int8), np.zeros(2)), r"^the observation '1' has shape \(4,\)"),
    ],
)
def test_a_wrong_observation_is_refused_in_one_sentence(name: str, observation: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ObservationCodec(SPACES[name]).encoded(observation)
