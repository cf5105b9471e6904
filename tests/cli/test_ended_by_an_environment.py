"""An environment that ends its process is a failure with a message, and never a finished run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import veldt
from sessions import session

TRAIN = "train ppo --env faulty_envs:ends_process --run-dir run --num-envs 4 --batch-size 64 --minibatches 2 --hidden 8"
IN_PROCESS = f"{TRAIN} --env-backend in-process --threads 1 --epochs 1 --steps 1280 --log-every 1000"
APART = "--env-backend workers --on-env-error restart continues after it"
RESUME = r"`veldt resume run` continues from the checkpoint of step \d+\n"
SEGFAULT = "the process was killed by SIGSEGV"
KILLED = "the process was killed by SIGKILL (by hand, or by the system for lack of memory)"


def ended(arguments: str, how: str) -> str:
    """The message of a command that ends in this way; it must fail and leave no process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "veldt", *arguments.split()],
        env=os.environ | {"ENDING": how},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, ""), errors
    end = time.monotonic() + 5
    while left := list(session(process.pid)):
        assert time.monotonic() < end, left
        time.sleep(0.05)
    said = errors[errors.index("veldt: ") :]
    assert said.count("veldt: ") == 1 and "Traceback" not in said, errors
    return said


@pytest.mark.parametrize(
    ("arguments", "how", "what"),
    [
        (TRAIN, "os._exit(0) make 0", "ended its process when it was made: the process exited with code 0"),
        (
            TRAIN,
            "os._exit(0) close 0",
            "ended its process when it was closed: the process exited with code 0",
        ),
        (
            TRAIN,
            "segfault reset 0",
            "(seed 0) ended its process in a reset when its speed was measured with random actions: "
            f"{SEGFAULT}; --debug shows where, and {APART}",
        ),
        (
            TRAIN,
            "os._exit(3) step 0",
            "(seed 0) ended its process in step 0 when its speed was measured with random actions: the process exited "
            f"with code 3; {APART}",
        ),
    ],
)
def test_before_a_run(arguments: str, how: str, what: str, in_tmp: Path) -> None:
    assert ended(arguments, how) == f"veldt: environment faulty_envs:ends_process {what}\n"
    assert not (in_tmp / "run").exists()


@pytest.mark.parametrize(
    ("how", "cause"),
    [("exit(0)", "the process exited with code 0"), ("SIGKILL", KILLED)],
)
def test_in_training(how: str, cause: str, in_tmp: Path) -> None:
    said = ended(IN_PROCESS, f"{how} step 750")
    seed, step = (in_tmp / "ending").read_text().split()
    assert int(step) > 0
    assert re.fullmatch(
        rf"veldt: environment faulty_envs:ends_process, env [0-3] \(seed {seed}\) ended its process in step "
        rf"{step}: {re.escape(f'{cause}; {APART}')}\n{RESUME}",
        said,
    ), said
    assert veldt.resume("run", quiet=True, steps=1344).reason == "steps"


def test_in_an_evaluation_and_a_video(in_tmp: Path) -> None:
    settings = {"num_envs": 4, "batch_size": 64, "minibatches": 2, "steps": 64, "env_backend": "in-process"}
    veldt.train("ppo", env="faulty_envs:ends_process", run_dir="run", quiet=True, **settings)
    said = ended("evaluate run --episodes 2", "os._exit(0) step 75")
    seed, step = (in_tmp / "ending").read_text().split()
    assert re.fullmatch(
        rf"veldt: environment faulty_envs:ends_process, env [01] \(seed {seed}\) ended its process in step "
        rf"{step}: the process exited with code 0\n",
        said,
    ), said
    said = ended("watch run", "segfault step 7")
    seed, step = (in_tmp / "ending").read_text().split()
    assert said == (
        f"veldt: environment faulty_envs:ends_process (seed {seed}) ended its process in step {step}: "
        f"{SEGFAULT}; --debug shows where\n"
    )


def test_when_its_module_is_imported(in_tmp: Path) -> None:
    (in_tmp / "mine.py").write_text("import os\nos._exit(0)\n")
    said = ended("train ppo --env mine:make", "no never 0")
    assert said == (
        "veldt: environment mine:make ended its process when it was imported: the process exited with code 0\n"
    )


def test_debug_shows_where(in_tmp: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "veldt", *TRAIN.split(), "--debug"],
        env=os.environ | {"ENDING": "segfault make 0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1 and "faulty_envs.py" in process.stderr, process.stderr
    assert process.stderr.endswith(f"ended its process when it was made: {SEGFAULT}\n")
