"""The benchmarks can be imported, and call the peers' scripts with flags that these have.

The peers themselves are not installed where tests run.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("script", "flags"), list(calls()))
def test_a_peer_has_the_flags_it_is_called_with(script: str, flags: list[str]) -> None:
    known = re.findall(r'add_argument\(\s*"(--[\w-]+)"', (BENCHMARKS / "peers" / script).read_text())
    assert set(flags) <= set(known)


def test_every_benchmark_can_be_imported() -> None:
    names = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(names)}"],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
