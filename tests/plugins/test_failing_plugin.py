"""A plug-in's algorithm whose loss always fails ends the run with its error, wherever the learner works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
import dataclasses

import veldt
from veldt.algorithms.vtrace import VTrace, VTraceConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokenConfig(VTraceConfig):
    """Settings of an algorithm that cannot learn."""


class Broken(VTrace):
    name = "broken"

    def loss(self, forward, batch, progress):
        raise KeyError("no such thing")


veldt.register_algorithm("broken", Broken, BrokenConfig)
'''


@pytest.mark.timeout(100)
@pytest.mark.parametrize("steps", ["2000", "10_000_000"])
def test_the_run_does_not_end_as_if_it_had_learned(steps: str, tmp_path: Path) -> None:
    """Actors do all the steps of a short run before the learner's third error; a long one is ended by that."""
    (tmp_path / "broken_loss.py").write_text(MODULE)
    command = ["train", "impala", "--plugin", "broken_loss", "--algorithm", "broken", "--env", "CartPole-v1"]
    # In a process of its own, which registers the algorithm.
    done = subprocess.run(
        [sys.executable, "-m", "veldt", *command, "--steps", steps],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 1
    named = "algorithm 'broken' (module broken_loss) raised in Broken.loss: KeyError: 'no such thing'"
    assert named in done.stderr and "broken_loss.py" in done.stderr
