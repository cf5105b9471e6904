"""`benchmarks/fuzz.py` finds no defect: here with few damages, there with hundreds of each kind of file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = (
    "ppo/config", "ppo/summary", "ppo/metrics", "ppo/episodes", "ppo/actions", "ppo/manifest", "ppo/weights",
    "ppo/envs", "dqn/manifest", "dqn/segment", "export/config", "export/weights",
)  # fmt: skip


@pytest.mark.long
def test_damaged_files_are_refused_or_passed_over(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "fuzz.py"), "--mutations", "6", *KINDS]
    places = {"TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **places})
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| {kind} | 6 |" in done.stdout for kind in KINDS)
    assert not list(tmp_path.glob("veldt-fuzz-*"))
