"""The short form of `benchmarks/soak.py`: a few random kills and stops, none of which harms a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(400)
@pytest.mark.parametrize("recipe", ["apex-dqn", "ppo", "a2c"])
def test_faults_of_every_process(recipe: str) -> None:
    command = [sys.executable, str(SOAK), "--faults", "3", "--recipes", recipe]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout
