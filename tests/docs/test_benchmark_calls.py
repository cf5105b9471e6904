"""The benchmarks can be imported, and call the peers' scripts with flags that these have.

The peers themselves are not installed where tests run.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from fork_servers import answers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def calls() -> Iterator[tuple[str, list[str]]]:
    """Yields the script of each call of `peer` or `best` that names one, and the flags written in the call."""
    for path in sorted(BENCHMARKS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("peer", "best")
            ):
                words = [
                    word.value
                    for word in node.args
                    if isinstance(word, ast.Constant) and isinstance(word.value, str)
                ]
                scripts = [word for word in words if word.endswith(".py")]
                if scripts:
                    yield scripts[0], [word for word in words if word.startswith("--")]


def import_all(pipe: Connection) -> None:
    """Imports the benchmarks, whose names others may have, in a process of its own; says so, or why it cannot."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        for path in sorted(BENCHMARKS.glob("*.py")):
            importlib.import_module(path.stem)
        pipe.send_bytes(b"all")
    except BaseException:
        pipe.send_bytes(traceback.format_exc().encode())


@pytest.mark.parametrize(("script", "flags"), list(calls()))
def test_a_peer_has_the_flags_it_is_called_with(script: str, flags: list[str]) -> None:
    known = re.findall(r'add_argument\(\s*"(--[\w-]+)"', (BENCHMARKS / "peers" / script).read_text())
    assert set(flags) <= set(known)


def test_every_benchmark_can_be_imported() -> None:
    assert answers(import_all, [()]) == [b"all"]
