"""An environment may start processes, wherever it is; they end with the run, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessions import session

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

class Late(Closed):
    # Starts its process in the training, when the run has its handlers of signals.
    def __init__(self):
        self.process = None

    def step(self, action):
        if self.process is None:
            super().__init__()
        return super().step(action)

    def close(self):
        if self.process is not None:
            super().close()

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


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(in_tmp: Path) -> Iterator[Start]:
    """Starts Python in a session of its own, in a directory with the module `processes`."""
    (in_tmp / "processes.py").write_text(CODE)
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(run)
        return run

    yield start
    for run in started:
        for process in session(run.pid):
            process.kill()
        run.communicate()


def train(env: str, arrangement: str, steps: int) -> list[str]:
    """The arguments of Python for a training in the directory `run`."""
    options = f"--env {env} --num-envs 4 --steps {steps} --run-dir run --log none --log-every 0.2"
    return ["-m", "veldt", "train", *arrangement.split(), *options.split()]


@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_they_are_started_and_ended(start: Start, arrangement: str) -> None:
    """Also by `terminate`, for which they must not have the run's handler of the signal."""
    run = start(*train("processes:Closed", arrangement, 400))
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 0 and "finished its steps" in output, output


def test_they_are_ended_in_a_program(start: Start) -> None:
    """Its other forks keep their handlers, so it is the run's own handler that ends them."""
    settings = "steps=400, num_envs=4, batch_size=128, quiet=True, run_dir='run'"
    code = f"import veldt; print(veldt.train('ppo', env='processes:Late', {settings}).reason)"
    run = start("-c", code)
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 0 and output.endswith("steps\n"), output


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
    start: Start, in_tmp: Path, arrangement: str, end: signal.Signals
) -> None:
    run = start(*train("processes:LeftOpen", ARRANGEMENTS[arrangement], 10**8))
    deadline = time.monotonic() + 60
    while not (in_tmp / "run" / "metrics.jsonl").exists():
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()[0]
        time.sleep(0.05)
    run.send_signal(end)
    run.wait(20)
    deadline = time.monotonic() + 10
    while found := list(session(run.pid)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
