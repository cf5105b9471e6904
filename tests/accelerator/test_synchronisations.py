"""What a run on an accelerator exchanges with the host: nothing waits inside an update, and one download per action."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from imitation import Traffic, recorded

import veldt
from run_state import SMALL, SMALL_REPLAYED
from runs import RUNS, train
from veldt.learning.learner import Learner
from veldt.learning.normalisation import update_observation_statistics
from veldt.sampling.sampler import Sampler
from veldt.systems.roles import sampler_learner

# The target network moves in every update here, so that all updates are the same operations.
ALIKE = {"dqn": {"target_update_interval": 0}, "c51": {"target_update_interval": 0}}
ALIKE["rainbow"] = ALIKE["dqn"]
ATARI = {"env_backend": "in-process", "alternate": "off", "network": "a3c", "steps": 48, "quiet": True}


@pytest.mark.parametrize("name", ["a2c", "vtrace", "ppo", "dqn", "c51", "rainbow", "ddpg"])
def test_an_update_waits_for_nothing_and_has_static_shapes(
    name: str,
    device: torch.device,
    traffic_of: Callable[[type, str], list[Traffic]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    recipe, env, settings = RUNS[name]
    monkeypatch.setitem(RUNS, name, (recipe, env, settings | ALIKE.get(name, {})))
    updates = traffic_of(Learner, "update")
    train(name, str(device), tmp_path / "run", 160)
    assert len(updates) >= 4
    for traffic in updates:
        assert traffic.synchronisations == []
    for traffic in updates[2:]:
        assert traffic.operations == updates[1].operations


@pytest.mark.parametrize("recipe", ["a2c", "ppo", "dqn"])
def test_a_step_on_stacks_copies_single_frames_there_and_actions_back(
    recipe: str,
    device: torch.device,
    traffic_of: Callable[[type, str], list[Traffic]],
    tmp_path: Path,
) -> None:
    own = {"a2c": {"num_envs": 2, "horizon": 4}, "ppo": SMALL | {"batch_size": 16}, "dqn": SMALL_REPLAYED}
    settings = {name: value for name, value in own[recipe].items() if name != "hidden"} | ATARI
    settings |= {"num_envs": 2, "device": str(device), "precision": "fp32"}
    acts = traffic_of(Sampler, "_act")
    veldt.train(recipe, env="ALE/Breakout-v5", run_dir=tmp_path / "run", **settings)
    first_rollout = 8
    assert len(acts) > 2 * first_rollout
    for traffic in acts[first_rollout:]:
        frames, ages = (
            [copy for copy in traffic.uploads if copy.dtype == dtype] for dtype in (torch.uint8, torch.int32)
        )
        assert len(traffic.uploads) == len(frames) + len(ages) == 2
        assert frames[0].shape[:2] == (1, 2) and len(frames[0].shape) == 4
        assert ages[0].nbytes == 8
        assert [copy.dtype for copy in traffic.downloads] == [torch.int64]
        assert len(traffic.synchronisations) == 1
        assert traffic.operations == acts[first_rollout].operations


@pytest.mark.parametrize("env", ["environments:lopsided_box", "environments:dictionary"])
def test_observation_statistics_wait_once_for_a_rollout(
    env: str, device: torch.device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rollouts: list[Traffic] = []

    def update(*args: Any) -> None:
        with recorded() as traffic:
            update_observation_statistics(*args)
        rollouts.append(traffic)

    monkeypatch.setattr(sampler_learner, "update_observation_statistics", update)
    recipe, _, settings = RUNS["ppo with normalisation"]
    monkeypatch.setitem(RUNS, "normalised", (recipe, env, settings))
    train("normalised", str(device), tmp_path / "run", 160)
    assert len(rollouts) >= 2
    for traffic in rollouts:
        assert len(traffic.uploads) == len(traffic.downloads) == 1
        assert traffic.synchronisations == traffic.downloads
