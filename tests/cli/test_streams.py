"""Closed or full standard streams, and a terminal that closes, do not end a run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from veldt.cli import main
from veldt.cli.entry import run
from veldt.cli.streams import kept_streams

VELDT = f"{shlex.quote(sys.executable)} -m veldt"
TRAIN = "train ppo --env CartPole-v1 --run-dir run --num-envs 4 --batch-size 64 --minibatches 2 --hidden 8"
QUICK = f"{VELDT} {TRAIN} --env-backend in-process --threads 1"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False)


PrintedIn = Callable[..., str]


@pytest.fixture
def printed_in(monkeypatch: pytest.MonkeyPatch) -> PrintedIn:
    """A function: encoding, or ENCODING:ERRORS, and a command -> what it prints on a standard output of that kind."""

    def printed(kind: str, *arguments: str) -> str:
        encoding, _, errors = kind.partition(":")
        output = io.TextIOWrapper(io.BytesIO(), encoding, errors or "strict")
        monkeypatch.setattr(sys, "stdout", output)
        main(arguments)
        output.flush()
        return output.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]

    return printed


def test_a_locale_of_ascii_prints_escapes(printed_in: PrintedIn) -> None:
    """Python takes these errors for it. The locale itself is not set: with it, Python finds no path with an accent."""
    assert "\\xb7" in printed_in("ascii:surrogateescape", "recipes", "rainbow")


def test_a_command_of_its_own_in_ascii() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "veldt", "recipes", "rainbow"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert r"\u03b5" in done.stdout.decode("ascii")


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
def test_closed_streams(redirected: str, in_tmp: Path) -> None:
    done = shell(f"{QUICK} --steps 64 {redirected}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and (in_tmp / "run" / "summary.json").exists()
    assert (in_tmp / "run" / "lock").read_text().strip().isdecimal(), "something was printed into the lock"


SILENCED = """
import os, sys
import gymnasium

def make(fails=False, how="replaces"):
    if how == "replaces":
        sys.stdout = sys.stderr = open(os.devnull, "w")
    elif how == "closes":
        sys.stdout.close()
        sys.stderr.close()
    else:
        os.closerange(1, 3)
    if fails:
        raise RuntimeError("no licence")
    return gymnasium.make("CartPole-v1")
"""


@pytest.mark.parametrize("how", ["replaces", "closes", "closes the descriptors"])
def test_an_environment_that_takes_the_streams_hides_neither_result_nor_failure(
    how: str, in_tmp: Path
) -> None:
    (in_tmp / "silenced.py").write_text(SILENCED)
    line = QUICK.replace("CartPole-v1", "silenced:make")
    done = shell(f"{line} --steps 64 --env-kwargs '{json.dumps({'how': how})}'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("run finished its steps")
    kwargs = json.dumps({"how": how, "fails": True})
    failed = shell(f"{line.replace('--run-dir run', '--run-dir other')} --env-kwargs '{kwargs}'")
    assert failed.returncode == 1
    assert "no licence" in failed.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("arguments", ["--version", "recipes"])
def test_output_to_a_full_device(arguments: str) -> None:
    done = shell(f"{VELDT} {arguments} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("veldt: cannot print the result (No space left on device)")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_that_cannot_be_reported_is_one_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal whose end interrupts a command takes no more text."""

    def interrupted(arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veldt.cli.entry.run", interrupted)
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        with pytest.raises(SystemExit) as end:
            main(["report", "run"])
    assert end.value.code == 130


def test_a_terminal_that_goes_away(in_tmp: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(in_tmp)
        os.execv("/bin/sh", ["sh", "-c", f"exec {QUICK} --steps {10**9}"])
    try:
        while not list(in_tmp.glob("run/checkpoints/step-*/manifest.json")):
            os.read(terminal, 10_000)
            time.sleep(0.01)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    summary = json.loads((in_tmp / "run" / "summary.json").read_text())
    assert list(in_tmp.glob(f"run/checkpoints/step-*{summary['steps']}/manifest.json"))


@pytest.mark.parametrize(("encoding", "epsilon"), [("ascii", r"\u03b5"), ("utf-8", "ε")])
def test_output_in_another_encoding(encoding: str, epsilon: str, printed_in: PrintedIn) -> None:
    assert epsilon in printed_in(encoding, "recipes", "rainbow")


def test_a_table_in_another_encoding(printed_in: PrintedIn) -> None:
    assert printed_in("ascii", "doctor")


def test_output_to_an_object_without_an_encoding() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run(["--version"])
    assert printed.getvalue().startswith("veldt ")


def test_a_working_directory_that_has_been_removed(in_tmp: Path) -> None:
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && {VELDT} doctor")
    assert done.returncode == 2
    assert done.stderr == (
        "veldt: the working directory of this process has been removed: change to one that exists (cd), and start "
        "again\n"
    )


def test_a_program_without_standard_streams(in_tmp: Path) -> None:
    """Python has None in their place."""
    program = 'import veldt; veldt.train("ppo", env="CartPole-v1", run_dir="run", steps=64, num_envs=4, batch_size=64)'
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} <&- >&- 2>&-")
    assert done.returncode == 0 and Path("run", "summary.json").exists()


def test_the_emulator_does_not_complain_at_the_end(in_tmp: Path) -> None:
    """Its objects are collected before the interpreter ends."""
    options = "--env ALE/Pong-v5 --steps 80 --num-envs 2 --env-backend in-process --precision fp32 --log none"
    done = shell(f"{VELDT} train a2c {options} --network a3c --threads 1 --run-dir run")
    assert done.returncode == 0 and "nanobind" not in done.stderr, done.stderr


def test_hooks_that_an_environment_has_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python makes no thread without them, and one says at the end what the command waits for."""
    own = sys.excepthook, threading.excepthook
    with kept_streams():
        monkeypatch.setattr(sys, "excepthook", None)
        monkeypatch.setattr(threading, "excepthook", None)
    assert (sys.excepthook, threading.excepthook) == own
    threading.Thread(target=int)
