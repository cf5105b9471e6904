"""Compiled functions run also where Numba finds no directory to keep their code in, as in a read-only container."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from veldt.compiled import njit


def test_a_function_whose_code_cannot_be_kept() -> None:
    defined: dict[str, Any] = {}
    # A function of no file is like one of a file without a writable directory.
    exec("def double(number): return 2 * number", defined)
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(defined["double"])
    assert njit()(defined["double"])(21) == 42
