"""A run on an accelerator has the CPU's values, bit for bit: acting, updates, target networks, replay, checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import veldt
from run_state import assert_same_run, newest
from runs import RUNS, train

STEPS = 240


@pytest.mark.parametrize("name", RUNS)
def test_a_run_equals_the_run_on_the_cpu(name: str, device: torch.device, tmp_path: Path) -> None:
    there = train(name, str(device), tmp_path / "there", STEPS)
    here = train(name, "cpu", tmp_path / "here", STEPS)
    assert newest(there.path).meta["learners"]["0"]["updates"] > 0
    assert_same_run(here.path, there.path)
    scores = [
        veldt.evaluate(veldt.load(there.path, device=name), episodes=3, greedy=False).scores
        for name in ("cpu", str(device))
    ]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("name", ["vtrace with an LSTM", "ppo with normalisation", "rainbow"])
def test_a_resumed_run_equals_the_resumed_run_on_the_cpu(
    name: str, device: torch.device, tmp_path: Path
) -> None:
    runs = [train(name, each, tmp_path / each[:3], STEPS // 2).path for each in ("cpu", str(device))]
    for run in runs:
        veldt.resume(run, steps=STEPS, quiet=True)
    assert_same_run(*runs)
