"""A copy of the process that an environment forks, and that comes back from it, ends; the process itself goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEPS = """
import os, sys
import gymnasium, numpy as np
from veldt.envs.from_gymnasium.gymnasium_step_env import GymnasiumStepEnv

class Forking(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def _answer(self, call, result):
        if call == sys.argv[1] and (child := os.fork()):
            os.waitpid(child, 0)
        elif call == sys.argv[1]:
            if sys.argv[2] == "fails":
                raise RuntimeError("in the copy")
            if sys.argv[2] == "exits":
                os._exit(0)
        return np.zeros(1, np.float32), *result

    def reset(self, *, seed=None, options=None):
        return self._answer("reset", ({},))

    def step(self, action):
        return self._answer("step", (1.0, False, False, {}))

env, rows = GymnasiumStepEnv(Forking()), [np.zeros((1, 1), np.float32)]
env.reset(0, rows, 0)
for _ in range(2):
    env.step(0, rows, 0)
print("stepped", flush=True)
"""


@pytest.mark.parametrize("call", ["reset", "step"])
@pytest.mark.parametrize("how", ["returns", "fails", "exits"])
def test_a_forked_copy_that_comes_back_ends(call: str, how: str) -> None:
    command = [sys.executable, "-c", STEPS, call, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "stepped\n"
    copies = 0 if how == "exits" else 1 if call == "reset" else 2
    assert done.stderr.count(f"veldt: Forking.{call}() forked its process, and the copy came back") == copies
