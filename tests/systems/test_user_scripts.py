"""Scripts as users write them: environments of their own, and no `if __name__ == "__main__"` guard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_runs import START_S

import veldt
from environments import scripted
from run_state import SMALL

SCRIPT = """
import gymnasium
import numpy as np

import veldt

print("from the top")


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=10):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.length
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.left -= 1
        return np.full(3, action, np.float32), 1.0, self.left == 0, False, {}


size = 7
gymnasium.register("Mine-v0", entry_point=Mine)
gymnasium.register("MineByName-v0", entry_point="__main__:Mine")
small = dict(num_envs=4, batch_size=32, minibatches=2, steps=64, quiet=True, env_backend="workers", processes=2)
for number, env in enumerate([Mine, lambda: Mine(size), "Mine-v0", "MineByName-v0"]):
    run = veldt.train("ppo", env=env, run_dir=f"run-{number}", **small)
    games = veldt.evaluate(veldt.load(run.path, env=env), episodes=3)
    print(run.reason, games.lengths)


def make():
    return Mine(size)


def network(shape):
    import torch
    return torch.nn.Linear(shape[0], 8)


run = veldt.train("ppo", env=make, network=network, run_dir="by-name", **small)
print(veldt.evaluate(veldt.load(run.path), episodes=2).lengths, veldt.evaluate(run.path, episodes=1).lengths)
print(veldt.resume(run.path, steps=128, quiet=True).reason)

apart = dict(actors=2, num_envs=4, horizon=4, unrolls=4, steps=64, quiet=True)
print(veldt.train("impala", env=make, network=network, run_dir="apart", **apart).reason)
"""


def test_without_a_guard(in_tmp: Path) -> None:
    (in_tmp / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=in_tmp,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tens, sevens = "steps [10, 10, 10]", "steps [7, 7, 7]"
    by_name = ["[7, 7] [7]", "steps"]
    assert done.stdout.splitlines() == ["from the top", tens, sevens, tens, tens, *by_name, "steps"]
    # Elsewhere the script's functions are not to be had, and both are asked for at once.
    with pytest.raises(veldt.UsageError) as caught:
        veldt.load("by-name")
    assert str(caught.value) == (
        "the run's environment __main__:make and network __main__:network were callables that cannot be imported by "
        "name: pass them again, load(run, env=..., network=...); on the command line, put them into a file and "
        "give --env module:function --network module:function"
    )


MODULE = """
import gymnasium

def make():
    return gymnasium.make("CartPole-v1", max_episode_steps=20)

def network(shape):
    import torch
    return torch.nn.Linear(shape[0], 8)
"""


def test_a_module_in_the_working_directory(in_tmp: Path) -> None:
    """The installed command finds it there, and so do its env processes."""
    (in_tmp / "mine.py").write_text(MODULE)
    veldt_command = Path(sys.executable).with_name("veldt")
    train = (
        "train ppo --env mine:make --network mine:network --run-dir run --env-backend workers --processes 2"
    )
    small = "--num-envs 4 --batch-size 32 --minibatches 2 --steps 64"
    for arguments in (f"{train} {small}", "resume run --steps 96", "evaluate run --episodes 2"):
        command = [str(veldt_command), *arguments.split()]
        done = subprocess.run(
            command, cwd=in_tmp, capture_output=True, text=True, timeout=START_S, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "2 episodes" in done.stdout


def test_a_closure(tmp_path: Path) -> None:
    """It cannot be found again by its name, so it is asked for where it is needed again."""
    made = []

    def make() -> object:
        made.append(1)
        return scripted()

    settings = SMALL | {"steps": 64, "env_backend": "in-process"}
    run = veldt.train("ppo", env=make, run_dir=tmp_path / "run", quiet=True, **settings)
    for again in (veldt.load, veldt.resume):
        with pytest.raises(
            veldt.UsageError, match=r"callable that cannot be imported by name: pass it again"
        ):
            again(run.path)
    assert veldt.resume(run.path, env=make, steps=128, quiet=True).reason == "steps"
    assert veldt.load(run.path, env=make).act(scripted().reset(seed=1)[0]) in range(5)


def test_keyword_arguments(tmp_path: Path) -> None:
    """They reach the environment, in training, when it is loaded and when it goes on."""
    settings = SMALL | {"steps": 200, "env_backend": "in-process"}
    run = veldt.train(
        "ppo",
        env="environments:Scripted",
        env_kwargs={"script": [[3, "terminated"]]},
        run_dir=tmp_path / "run",
        quiet=True,
        **settings,
    )
    veldt.resume(run.path, steps=300, quiet=True)
    assert set(veldt.evaluate(run.path, episodes=4).lengths) == {3}
