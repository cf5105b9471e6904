"""SystemExit, or anything else that is not an Exception, from the user's code is a failure of that code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import veldt
from faulty_envs import EndsProcess
from veldt.cli import main

TRAIN = "train ppo --env faulty_envs:ends_process --run-dir run --num-envs 4 --batch-size 64 --minibatches 2 --hidden 8"
IN_PROCESS = f"{TRAIN} --env-backend in-process --threads 1 --epochs 1 --steps 1280 --log-every 1000"
MEASURED = "when its speed was measured with random actions"


@pytest.fixture(autouse=True)
def unharmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndsProcess, "calls", type(EndsProcess.calls)())


def failure(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence of a command that fails."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    shown = capsys.readouterr()
    assert (stopped.value.code, shown.out) == (1, ""), shown.err
    (said,) = (line for line in shown.err.splitlines() if line.startswith("veldt: "))
    return said.removeprefix("veldt: ")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("SystemExit(0) make 0", "could not be made: SystemExit: 0"),
        ("SystemExit('text') make 0", "could not be made: SystemExit: text"),
        ("SystemExit(0) reset 0", f"(seed 0) failed in a reset {MEASURED}: SystemExit: 0"),
        ("CancelledError step 0", f"(seed 0) failed in step 0 {MEASURED}: CancelledError: not now"),
    ],
)
def test_before_a_run(
    how: str, said: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENDING", how)
    assert failure(TRAIN, capsys) == f"environment faulty_envs:ends_process {said}"
    assert not (in_tmp / "run").exists()


def test_in_training(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENDING", "SystemExit(0) step 750")
    said = failure(IN_PROCESS, capsys)
    seed, step = (in_tmp / "ending").read_text().split()
    named = rf"environment faulty_envs:ends_process, env [0-3] \(seed {seed}\) failed in step {step}: SystemExit: 0"
    assert re.fullmatch(named, said), said
    monkeypatch.delenv("ENDING")
    assert veldt.resume("run", quiet=True, steps=1344).reason == "steps"
    for verb, shown in (("evaluate", r", env [0-3]"), ("watch", "")):
        monkeypatch.setattr(EndsProcess, "calls", type(EndsProcess.calls)())
        monkeypatch.setenv("ENDING", "SystemExit(0) step 7")
        said = failure(f"{verb} run", capsys)
        seed, step = (in_tmp / "ending").read_text().split()
        named = rf"environment faulty_envs:ends_process{shown} \(seed {seed}\) failed in step {step}: SystemExit: 0"
        assert re.fullmatch(named, said), said


MODULE = """
import sys

def make():
    import gymnasium
    return gymnasium.make("CartPole-v1")

def when_made(shape):
    sys.exit()

def when_trained(shape):
    import torch

    class Network(torch.nn.Linear):
        def forward(self, observation):
            if self.weight.grad is not None or len(observation) == 64:
                sys.exit()
            return super().forward(observation)

    return Network(shape[0], 4)
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--env leaves:make", "environment leaves:make could not be imported: SystemExit: 0"),
        (
            "--env CartPole-v1 --network leaves:make",
            "network leaves:make could not be imported: SystemExit: 0",
        ),
        (
            "--env CartPole-v1 --network stays:when_made",
            "network stays:when_made failed when it was made for the shape (4,): SystemExit",
        ),
        (
            "--env stays:make --network stays:when_trained --num-envs 4 --batch-size 64 --minibatches 1 "
            "--env-backend in-process",
            "network stays:when_trained raised in when_trained.<locals>.Network.forward: SystemExit",
        ),
    ],
)
def test_in_modules_and_networks(
    arguments: str,
    said: str,
    in_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(in_tmp)
    (in_tmp / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    (in_tmp / "stays.py").write_text(MODULE)
    assert failure(f"train ppo {arguments}", capsys) == said
