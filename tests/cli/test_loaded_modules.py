"""What a run does not use is not imported: a small run lasts seconds, and numba alone takes a third of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from veldt.cli.entry import run
run(["train", "ppo", "--env", "CartPole-v1", "--steps", "64", "--batch-size", "64", "--num-envs", "4",
     "--minibatches", "1", "--run-dir", "run", "--env-backend", "in-process"])
print([name for name in ("numba", "ray", "matplotlib", "cv2", "pygame", "ale_py", "optuna") if name in sys.modules])
"""


def test_a_small_on_policy_run_loads_only_what_it_uses(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
