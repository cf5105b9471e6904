"""`benchmarks/fuzz.py` finds no defect: here with one damage, there with hundreds of each kind of file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EACH = 1  # damage of each kind of file


@pytest.mark.long
def test_damaged_files_are_refused_or_passed_over(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "fuzz.py"), "--mutations", str(EACH)]
    places = {"TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **places})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f" | {EACH} | ") > 20, done.stdout  # every kind has its row
    assert not list(tmp_path.glob("veldt-fuzz-*"))
