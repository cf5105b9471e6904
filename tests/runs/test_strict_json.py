"""JSON text is read back as what was written, with non-finite floats, and without a second pass where it has none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from veldt.runs import strict_json


@pytest.mark.parametrize(
    "text",
    ['{"a": ["NaN"]}', '{"a": ["\\u004eaN"]}', '{"a": ["N\\u0061N"]}', b'\xef\xbb\xbf{"a": ["NaN"]}'],
)
def test_a_string_for_a_float_is_found_however_it_is_written(text: str | bytes) -> None:
    assert math.isnan(strict_json.loads(text)["a"][0])


def test_it_is_found_in_other_encodings() -> None:
    assert strict_json.loads('{"a": "-Infinity"}'.encode("utf-16")) == {"a": -math.inf}


def test_other_strings_and_keys_stay() -> None:
    text = '{"NaN": "NaN of a loss", "b": "Infinity", "c": "x\\ny"}'
    assert strict_json.loads(text) == {"NaN": "NaN of a loss", "b": math.inf, "c": "x\ny"}


@pytest.mark.parametrize("text", [b"", b"\0\0\0\0", b"{", b'{"a": 1} {}', b'"\xff"', "{'a': 1}"])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        strict_json.loads(text)


def test_a_row_of_finite_numbers_is_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """That took most of the time in which a log of many episodes is read."""

    def refuse(value: Any) -> Any:
        raise AssertionError("it has no string for a float")

    monkeypatch.setattr(strict_json, "restored", refuse)
    row = {"env": 3, "score": -1.5, "offset": None, "dtype": "uint8", "shape": [200]}
    assert strict_json.loads(strict_json.dumps(row).encode()) == row
