"""A command that may not open enough files says so in a sentence, with the limit and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROLES = "apex-dqn --env CartPole-v1 --steps 400 --learning-starts 200 --batch-size 16 --actors 2 --log none"
WORKERS = "ppo --env CartPole-v1 --steps 300 --env-backend workers --processes 2 --num-envs 8 --batch-size 64"


@pytest.mark.skipif(sys.platform != "linux", reason="how many files a start needs differs")
@pytest.mark.parametrize(("limit", "arguments"), [(20, ROLES), (24, ROLES), (32, ROLES), (20, WORKERS)])
def test_too_few(limit: int, arguments: str, in_tmp: Path) -> None:
    shell = f'ulimit -n {limit}; exec "$0" -m veldt train {arguments} --run-dir run'
    done = subprocess.run(
        ["bash", "-c", shell, sys.executable],
        cwd=in_tmp,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    said = f"a process may open {limit} files at once here (ulimit -n), and this takes more: raise the limit with "
    assert f"{said}`ulimit -n 1024`" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done.stderr
