"""A function of the user's script is the same in another process."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from scripts import run_script
from veldt.user_code import by_value

# `np` and `LENGTH` are read by the bodies of classes alone, in the function and in one that it calls.
SCRIPT = """
import gymnasium
import numpy as np
import torch
import veldt

LENGTH = 7

def base():
    class Base(gymnasium.Env):
        length = LENGTH
        steps = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.steps = 0
            return self.observation_space.low, {}

        def step(self, action):
            self.steps += 1
            return self.observation_space.low, 1.0, self.steps >= self.length, False, {}

    return Base

def make_env():
    class Env(base()):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

    return Env()

def act(process):
    class Row:
        kind = np.float32

    return Row.kind(LENGTH)

run = veldt.train("ppo", env=make_env, steps=64, num_envs=2, batch_size=32, minibatches=1, epochs=1, threads=1,
                  run_dir="run", quiet=True, env_backend="workers", processes=1)
print(run.summary["ep_return_mean"])
print(veldt.run_roles({"actor": veldt.Processes(act)}).returned["actor"][0])
"""


def test_names_that_only_class_bodies_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run_script(script, monkeypatch)
    assert capsys.readouterr().out.split() == ["7.0", "7.0"]


def test_a_function_that_can_be_imported_stays_itself() -> None:
    assert by_value.loads(by_value.dumps(functools.wraps)) is functools.wraps
    assert by_value.loads(by_value.dumps(functools.partial(int, base=2)))("11") == 3
