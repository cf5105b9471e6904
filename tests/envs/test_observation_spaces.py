"""Unsupported observation spaces are refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from veldt.envs.env import ObservationCodec
from veldt.errors import UsageError

NUMBER = spaces.Box(-1, 1, (1,), np.float32)

REFUSED: dict[str, tuple[spaces.Space[Any], str]] = {
    "empty": (spaces.Dict({}), "is empty: give it at least one field"),
    "empty inside": (spaces.Dict({"a": spaces.Dict({})}), "is empty"),
    "name is a number": (spaces.Dict({1: NUMBER}), "is named 1: names must be strings"),  # type: ignore[dict-item]
    "name is empty": (spaces.Dict({"": NUMBER}), "is named '': names must be strings and not empty"),
    "same name": (
        spaces.Dict({"a/b": NUMBER, "a": spaces.Dict({"b": NUMBER})}),
        "two fields of the observation space are named 'a/b'",
    ),
    "no numbers": (spaces.Dict({"a": spaces.Sequence(NUMBER)}), "is not supported: allowed are Box"),
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
