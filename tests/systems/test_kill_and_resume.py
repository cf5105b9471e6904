"""A run killed by SIGKILL in the middle of a rollout and resumed equals a run that was never interrupted."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from child_runs import START_S, child

import veldt
from run_state import SMALL, SMALL_REPLAYED, assert_same_run

# Kills the process, workers and all, at a step of the run that is far from any checkpoint.
KILLED = """
import os, signal
import veldt
import veldt.runs.episodes
from veldt.sampling.sampler import Sampler

veldt.runs.episodes._BUFFERED_BYTES = 1  # so that games are listed that the resumed run plays again

act = Sampler._act

def act_until_killed(self, group, t, noise):
    if self.phase == {phase} and t == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    act(self, group, t, noise)

Sampler._act = act_until_killed
{call}
"""

ATARI = {
    "num_envs": 4,
    "horizon": 5,
    "threads": 1,
    "precision": "fp32",
    "log_every": 0.0,
    "max_episode_steps": 15,
    "anneal_learning_rate": True,
}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole, in this process": (
        "ppo",
        SMALL | {"env": "CartPole-v1", "env_backend": "in-process", "steps": 640},
    ),
    "Atari, workers": (
        "a2c",
        ATARI | {"env": "ALE/Breakout-v5", "env_backend": "workers", "processes": 2, "steps": 180},
    ),
    "module:function, workers": (
        "ppo",
        SMALL
        | {
            "env": "environments:scripted",
            "env_backend": "workers",
            "processes": 2,
            "steps": 500,
            "random_start_steps": 9,
        },
    ),
    "prioritised replay, compressed frames, noisy layers, workers": (
        "rainbow",
        {name: value for name, value in SMALL_REPLAYED.items() if name != "hidden"}
        | {
            "env": "ALE/Breakout-v5",
            "env_backend": "workers",
            "processes": 2,
            "steps": 240,
            "max_episode_steps": 15,
            "noisy": True,
            "compress_frames": True,
            "network": "a3c",
            "evaluate_every": 150,
            "evaluate_steps": 40,
        },
    ),
    "frames as they are, workers": (
        "c51",
        {name: value for name, value in SMALL_REPLAYED.items() if name != "hidden"}
        | {
            "env": "ALE/Pong-v5",
            "env_backend": "workers",
            "processes": 2,
            "steps": 200,
            "max_episode_steps": 15,
            "network": "a3c",
            "evaluate_every": 0,
        },
    ),
    "uniform replay, in this process": (
        "dqn",
        SMALL_REPLAYED
        | {"env": "CartPole-v1", "env_backend": "in-process", "steps": 600, "epsilon_steps": 400},
    ),
    "continuous actions, Polyak averaging, decorrelated": (
        "ddpg",
        SMALL_REPLAYED
        | {
            "env": "environments:bounded_box",
            "env_backend": "in-process",
            "steps": 600,
            "random_start_steps": 9,
            "target_update_interval": 0,
            "tau": 0.1,
        },
    ),
}


def run_until_killed(call: str, phase: int, cwd: Path) -> None:
    with child(KILLED.format(phase=phase, call=call), cwd) as process:
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == -signal.SIGKILL, errors


SHORT = (
    "Atari, workers",
    "prioritised replay, compressed frames, noisy layers, workers",
    "continuous actions, Polyak averaging, decorrelated",
)


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in RUNS]
)
def test_kill_and_resume(name: str, in_tmp: Path) -> None:
    recipe, settings = RUNS[name]
    # Not every phase has a checkpoint, so that phases are done again after the kill.
    settings = settings | {"checkpoint_every": settings["steps"] // 4}
    veldt.train(recipe, run_dir="whole", quiet=True, **settings)
    run_until_killed(f"veldt.train({recipe!r}, run_dir='killed', quiet=True, **{settings!r})", 5, in_tmp)
    assert not (in_tmp / "killed" / "summary.json").exists()
    assert veldt.resume("killed", quiet=True).reason == "steps"
    assert_same_run(in_tmp / "whole", in_tmp / "killed")


def test_killed_again_after_a_resume(in_tmp: Path) -> None:
    recipe, settings = RUNS["module:function, workers"]
    settings = settings | {"checkpoint_every": settings["steps"] // 5}
    veldt.train(recipe, run_dir="whole", quiet=True, **settings)
    run_until_killed(f"veldt.train({recipe!r}, run_dir='killed', quiet=True, **{settings!r})", 4, in_tmp)
    run_until_killed("veldt.resume('killed', quiet=True)", 7, in_tmp)
    assert veldt.resume("killed", quiet=True).reason == "steps"
    assert_same_run(in_tmp / "whole", in_tmp / "killed")


# Kills the process when a checkpoint's files are written, after the replay buffer's and before the checkpoint counts.
KILLED_SAVING = """
import os, signal
import veldt
from veldt.runs.checkpoints import CheckpointStore

saves, save = 0, CheckpointStore.save

def save_until_killed(self, *arguments, **named):
    global saves
    saves += 1
    if saves == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return save(self, *arguments, **named)

CheckpointStore.save = save_until_killed
{call}
"""


@pytest.mark.parametrize("keep", [1, pytest.param(3, marks=pytest.mark.long)])
def test_killed_between_the_replay_rows_and_their_checkpoint(keep: int, in_tmp: Path) -> None:
    recipe, settings = RUNS["uniform replay, in this process"]
    settings = settings | {"checkpoint_every": 60, "keep_checkpoints": keep}
    veldt.train(recipe, run_dir="whole", quiet=True, **settings)
    call = f"veldt.train({recipe!r}, run_dir='killed', quiet=True, **{settings!r})"
    with child(KILLED_SAVING.format(call=call), in_tmp) as process:
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == -signal.SIGKILL, errors
    assert veldt.resume("killed", quiet=True).reason == "steps"
    assert_same_run(in_tmp / "whole", in_tmp / "killed")
