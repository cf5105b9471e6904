"""A start that is interrupted or fails leaves nothing behind that blocks the next start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Sends its own process the signal when the environment is made, or in the first reset of training.
MODULE = """
import os, sys
import gymnasium


class Interrupted(gymnasium.Wrapper):
    def reset(self, **settings):
        if sys.argv[-1] == "when-reset" and os.path.exists("runs"):
            os.kill(os.getpid(), {number})
        return super().reset(**settings)


def make():
    if sys.argv[-1] == "when-made":
        os.kill(os.getpid(), {number})
    return Interrupted(gymnasium.make("CartPole-v1"))
"""
CODE = """
import sys
from veldt.cli import main
main("train ppo --env mine:make --env-backend in-process".split())
"""


@pytest.mark.parametrize(
    ("number", "when"),
    [(signal.SIGINT, "when-made"), (signal.SIGINT, "when-reset"), (signal.SIGTERM, "when-reset")],
)
def test_before_the_first_checkpoint(number: signal.Signals, when: str, in_tmp: Path) -> None:
    (in_tmp / "mine.py").write_text(MODULE.format(number=int(number)))
    done = subprocess.run(
        [sys.executable, "-c", CODE, when], cwd=in_tmp, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130, done.stderr
    said = "veldt: interrupted\n"
    if when == "when-reset":
        said += "there was no checkpoint yet, so there is nothing to go on from\n"
    assert done.stderr.endswith(said) and "Traceback" not in done.stderr
    assert list(in_tmp.glob("runs/*")) == []


def test_while_importing() -> None:
    """Also where a library converts the exception into another one."""
    code = """
import os, signal, sys
from veldt.cli import main


class Clumsy:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("initialisation failed")


sys.meta_path.insert(0, Clumsy())
main(["train"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "veldt: interrupted\n")
