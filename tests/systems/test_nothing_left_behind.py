"""However a run ends, soon afterwards no process of it is alive and no shared memory is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from child_runs import END_S, START_S, alive, child, descendants, shared_memory, wait_until

import veldt

pytestmark = pytest.mark.alone

# The command as it is installed: two processes, of which the first is known to whoever started it.
RUN = """
import sys
from veldt.cli.guard import main
sys.argv[1:] = [
    "train", "ppo", "--env", "{env}", "--run-dir", "run", "--env-backend", "{backend}", {processes}
    "--num-envs", "4", "--batch-size", "64", "--minibatches", "2", "--epochs", "1", "--hidden", "16",
    "--threads", "1", "--steps", "{steps}", "--checkpoint-every", "{every}", "--env-kwargs", '{kwargs}',
]
main()
"""
ENDLESS = 10**9


def code(
    env: str = "CartPole-v1",
    steps: int = ENDLESS,
    every: int = 64,
    kwargs: dict[str, object] | None = None,
    backend: str = "workers",
) -> str:
    return RUN.format(
        env=env,
        steps=steps,
        every=every,
        kwargs=json.dumps(kwargs or {}),
        backend=backend,
        processes='"--processes", "2",' if backend == "workers" else "",
    )


def await_training(run: Path, process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Waits for the first checkpoint; returns all processes of the run below the first one."""

    def trains() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return any(run.glob("checkpoints/step-*/manifest.json"))

    wait_until(trains, START_S, "a checkpoint")
    family = descendants(process.pid)
    assert len(family) >= 4, "the process that trains, two env processes and what starts them"
    return family


def check_gone(family: list[psutil.Process], memory_before: set[str]) -> None:
    wait_until(lambda: not alive(family), END_S, "all processes gone")
    wait_until(lambda: not shared_memory() - memory_before, END_S, "shared memory gone")


def check_resumable(cwd: Path) -> None:
    summary = json.loads((cwd / "run" / "summary.json").read_text())
    steps = summary["steps"]
    run = veldt.resume(cwd / "run", quiet=True, steps=steps + 64)
    assert run.reason == "steps" and run.summary["steps"] >= steps + 64


def test_after_success(in_tmp: Path) -> None:
    before = shared_memory()
    with child(code(steps=512), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        output, errors = process.communicate(timeout=START_S)
        assert process.returncode == 0, errors
        check_gone(family, before)
    assert "finished its steps" in output


def test_after_an_error(in_tmp: Path) -> None:
    """An environment that fails late: in a process that has been working for a while."""
    before = shared_memory()
    with child(code("faulty_envs:fails_after_a_while", every=64), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == 1
        check_gone(family, before)
    assert "veldt: environment faulty_envs:fails_after_a_while, env" in errors
    assert "the wheel came off" in errors
    resume = (
        r"\nwhen the environment is fixed, `veldt resume run` continues from the checkpoint of step [\d,]+\n"
    )
    assert re.search(resume, errors)
    assert "\na new run with --on-env-error restart begins another episode in its place instead\n" in errors


@pytest.mark.parametrize(
    ("number", "everyone"),
    [
        pytest.param(signal.SIGINT, False, marks=pytest.mark.long),
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, False, marks=pytest.mark.long),
        (signal.SIGHUP, True),
    ],
)
def test_after_a_signal(number: signal.Signals, everyone: bool, in_tmp: Path) -> None:
    """Terminals and job schedulers send theirs to every process of the run, envs included."""
    before = shared_memory()
    with child(code(), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        if everyone:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
        output, errors = process.communicate(timeout=START_S)
        assert process.returncode == 0, errors
        check_gone(family, before)
    assert (
        "was interrupted: " in output
        and "its checkpoint is saved, continue with `veldt resume " in output
        and "Traceback" not in errors
    )
    check_resumable(in_tmp)


def test_after_kill_9(in_tmp: Path) -> None:
    before = shared_memory()
    with child(code(), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        process.kill()
        check_gone(family, before)


def test_after_kill_9_with_an_environment_in_native_code(in_tmp: Path) -> None:
    """One that holds the interpreter's lock cannot be asked to end."""
    before = shared_memory()
    with child(code("faulty_envs:hangs_in_native_code_after_a_while"), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        wait_until((in_tmp / "hangs").exists, START_S, "the environment hangs")
        process.kill()
        check_gone(family, before)


def test_a_second_interrupt_does_not_wait(in_tmp: Path) -> None:
    """The first asks for a checkpoint after the present phase, which a hanging environment never ends."""
    before = shared_memory()
    with child(code("faulty_envs:hangs_in_native_code_after_a_while"), in_tmp) as process:
        family = await_training(in_tmp / "run", process)
        wait_until((in_tmp / "hangs").exists, START_S, "the environment hangs")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # at once, as from a terminal that closes: the same request
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == 130 and "Traceback" not in errors, errors
        check_gone(family, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("backend", ["in-process", "workers"])
def test_one_request_ends_a_run_whose_environment_hangs(
    backend: str, number: signal.Signals, in_tmp: Path
) -> None:
    """As a second one would: a scheduler sends only one. The environment has 60 seconds for a step else."""
    before = shared_memory()
    with child(code("faulty_envs:hangs_after_a_while", backend=backend), in_tmp) as process:
        wait_until((in_tmp / "hangs").exists, START_S, "the environment hangs")
        family = descendants(process.pid)
        process.send_signal(number)
        _, errors = process.communicate(timeout=20.0)
        assert process.returncode == 130 and "Traceback" not in errors, errors
        assert "`veldt resume run` continues from the checkpoint of step " in errors
        check_gone(family, before)
