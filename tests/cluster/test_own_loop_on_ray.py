"""A program of one's own functions on Ray on this machine: all pieces, and a process that fails."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import veldt
from documentation import EXAMPLES

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", ["own_loop_a3c", "own_loop_apex", "own_loop_impala"])
def test_the_examples_run(name: str, nothing_left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    done = importlib.import_module(name).main("local", episodes=60)
    assert done.reason in ("returned", "stopped")


def raises(process: veldt.RoleProcess) -> Any:
    return [][process.index]


def test_an_exception_names_the_line(nothing_left: Path) -> None:
    with pytest.raises(veldt.VeldtError, match=r"^the one failed \(IndexError: .*, line \d+, in raises\)\)"):
        veldt.run_roles({"one": veldt.Processes(raises)}, cluster="local")
