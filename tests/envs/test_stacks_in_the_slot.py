"""Stacks that the envs make with their rows, against stacks made afterwards from the rows' frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from slots import hashing_policy, make, phases, settings_for

from veldt.algorithms.rollout import Observation
from veldt.envs import trajectory
from veldt.envs.settings import AtariConfig
from veldt.functional.frames import stack_frames
from veldt.sampling.observations import OnAccelerator, OnCPU, slot_observations

STEPS, PHASES = 7, 4


@pytest.mark.parametrize("processes", [0, 2, 3])  # of three processes, some have no env of a group
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_stacks_in_the_slot_equal_stacks_made_from_the_frames(processes: int, resets: str) -> None:
    """In every row that is kept, over episodes that end, and after each carry-over."""
    atari = AtariConfig(max_episode_steps=9)
    settings = settings_for("ALE/Pong-v5", atari, num_envs=4, resets=resets)
    envs = make(settings, STEPS, groups=2, processes=processes, stacks=True)
    try:
        envs.start()
        observations = slot_observations(envs.trajectory, torch.device("cpu"))
        for slot in phases(envs, hashing_policy(envs.trajectory.spec.action), PHASES, resets):
            t_N, b_N = np.divmod(np.arange((STEPS + 1) * slot.width), slot.width)
            wanted = stack_frames(
                torch.from_numpy(slot.observation[""]),
                torch.from_numpy(slot.episode_step),
                4,
                torch.from_numpy(t_N),
                torch.from_numpy(b_N),
            )
            assert torch.equal(observations.rows(None), wanted[: STEPS * slot.width])
            assert torch.equal(observations.last(), wanted[STEPS * slot.width :])
            some = torch.tensor([5, 0, STEPS * slot.width - 1])
            assert torch.equal(observations.rows(some), wanted[some])
    finally:
        envs.close()


def test_stacks_are_kept_for_few_rows_if_they_would_take_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "_KEEP_ALL", 0)
    envs = make(settings_for("ALE/Pong-v5", num_envs=2), STEPS, stacks=True)
    try:
        envs.start()
        slot = envs.trajectory
        assert len(slot.stacks[""]) == 2
        observations, frames = (
            slot_observations(slot, torch.device("cpu")),
            torch.from_numpy(slot.observation[""]),
        )
        b_N, episode_step = torch.arange(2), torch.from_numpy(slot.episode_step)
        for phase in range(2):
            for t in range(STEPS):
                wanted = stack_frames(frames, episode_step, 4, torch.full((2,), t), b_N)
                assert torch.equal(observations.row(t, slice(0, 2)), wanted), (phase, t)
                slot.action[t] = t % 6
                envs.step(0, t)
                envs.wait(0, t)
            all_rows = observations.rows(None)
            assert isinstance(all_rows, torch.Tensor) and len(all_rows) == 2 * STEPS
            envs.start_next_rollout()
    finally:
        envs.close()


@pytest.mark.parametrize("env", ["ALE/Pong-v5", "environments:dictionary", "environments:scripted"])
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_the_copy_on_an_accelerator_equals_the_slot(env: str, resets: str) -> None:
    """Each frame is sent once, while the rows are filled (here to another block of the same memory)."""
    atari = AtariConfig(max_episode_steps=9)
    envs = make(settings_for(env, atari, num_envs=4, resets=resets), STEPS, groups=2, stacks=True)
    try:
        envs.start()
        slot = envs.trajectory
        here, there = OnCPU(slot), OnAccelerator(slot, torch.device("cpu"))
        rng = np.random.default_rng(0)
        for _ in range(PHASES):
            actions = slot.spec.action.sample(rng, STEPS * slot.width)
            slot.action[:] = actions.reshape(slot.action.shape)
            for t in range(STEPS):
                for group, part in enumerate(envs.groups):
                    check_same(there.row(t, part), here.row(t, part))
                    envs.step(group, t)
                    envs.wait(group, t)
            check_same(there.last(), here.last())
            check_same(there.rows(None), here.rows(None))
            some = torch.from_numpy(rng.permutation(STEPS * slot.width)[:9])
            check_same(there.rows(some), here.rows(some))
            if resets == "wait":
                envs.reset_ended()
            envs.start_next_rollout()
            if resets == "wait":
                envs.finish_resets()
    finally:
        envs.close()


def check_same(there: Observation, here: Observation) -> None:
    if isinstance(here, torch.Tensor):
        there, here = {"": there}, {"": here}  # type: ignore[dict-item]
    assert isinstance(there, dict) and there.keys() == here.keys()
    for name, tensor in here.items():
        assert torch.equal(there[name], tensor), name
