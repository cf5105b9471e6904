"""An environment may start processes, wherever it is; they end with the run, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked to end them")
CODE = """
import multiprocessing, subprocess, sys
import gymnasium, numpy as np

def answer(pipe):
    while True:
        pipe.send(pipe.recv() + 1)

class Env(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)

    def __init__(self):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=answer, args=(theirs,), daemon=True)
        self.process.start()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.pipe.send(self.steps)
        self.steps = self.pipe.recv()
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, False, self.steps >= 20, {}

class Closed(Env):
    def close(self):
        self.process.terminate()
        self.process.join()

class LeftOpen(Env):
    def __init__(self):
        super().__init__()
        # Not in the working process, which nobody ends where its own parent is killed.
        if multiprocessing.parent_process() is not None:
            self.program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
"""
ARRANGEMENTS = {
    "here": "ppo --batch-size 128",
    "workers": "ppo --batch-size 128 --env-backend workers --processes 2",
    "actors": "impala --actors 2",
}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "processes.py").write_text(CODE)
    yield tmp_path
    for process in left(tmp_path):
        process.kill()


def train(directory: Path, env: str, arrangement: str, steps: int) -> subprocess.Popen[str]:
    options = f"--num-envs 4 --steps {steps} --run-dir run --log none --log-every 0.2"
    return subprocess.Popen(
        [sys.executable, "-m", "veldt", "train", *arrangement.split(), "--env", env, *options.split()],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "IS_LEFT_BY": str(directory)},
    )


def left(directory: Path) -> list[psutil.Process]:
    """The processes of the run in this directory, and what they have started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("IS_LEFT_BY") == str(directory) and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            pass
    return found


@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_they_are_started_and_ended(directory: Path, arrangement: str) -> None:
    """Also by `terminate`, for which they must not have the run's handler of the signal."""
    run = train(directory, "processes:Closed", arrangement, 400)
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 0 and "finished its steps" in output, output


@pytest.mark.parametrize(
    ("arrangement", "end"),
    [
        ("here", signal.SIGKILL),
        ("workers", signal.SIGINT),
        ("workers", signal.SIGKILL),
        ("actors", signal.SIGKILL),
    ],
)
def test_none_is_left_that_the_environment_leaves(
    directory: Path, arrangement: str, end: signal.Signals
) -> None:
    run = train(directory, "processes:LeftOpen", ARRANGEMENTS[arrangement], 10**8)
    deadline = time.monotonic() + 60
    while not (directory / "run" / "metrics.jsonl").exists():
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()[0]
        time.sleep(0.05)
    run.send_signal(end)
    run.wait(20)
    deadline = time.monotonic() + 10
    while found := left(directory):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
