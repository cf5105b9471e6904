"""The same seed and policy give the same trajectories, bit for bit, wherever envs run and however grouped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slots import copy_of, hashing_policy, make, phases, settings_for

from environments import dictionary, lopsided_box, scripted
from veldt.envs.settings import AtariConfig

# (groups, processes)
ARRANGEMENTS = [(2, 0), (1, 1), (1, 2), (2, 2)]

# name: (environment, envs, steps in a slot, slots)
ENVIRONMENTS: dict[str, tuple[str | Callable[[], Any], int, int, int]] = {
    "CartPole": ("CartPole-v1", 5, 16, 4),
    "dictionary": (dictionary, 4, 8, 4),
    "box of actions": (lopsided_box, 4, 8, 3),
    "module:function": ("environments:scripted", 4, 8, 3),
    "closure": (lambda: scripted(), 4, 8, 3),  # noqa: PLW0108 - what cannot be imported by name
    "Breakout": ("ALE/Breakout-v5", 2, 4, 3),
}


def trajectories(name: str, groups: int, processes: int, resets: str) -> list[dict[str, np.ndarray]]:
    env, width, steps, count = ENVIRONMENTS[name]
    atari = AtariConfig(max_episode_steps=6, sticky_actions=0.25)  # so that episodes end within a few steps
    settings = settings_for(env, atari, num_envs=width, random_start_steps=20, resets=resets)
    envs = make(settings, steps, groups, processes)
    try:
        envs.start()
        policy = hashing_policy(envs.trajectory.spec.action)
        return [copy_of(slot) for slot in phases(envs, policy, count, resets)]
    finally:
        envs.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_same_trajectories(name: str, resets: str) -> None:
    alone = trajectories(name, 1, 0, resets)
    assert sum(slot["is_last"].sum() for slot in alone) > 0, "no episode ended: the test would not see resets"
    for groups, processes in ARRANGEMENTS:
        others = trajectories(name, groups, processes, resets)
        for phase, (one, other) in enumerate(zip(alone, others, strict=True)):
            for field in one:
                what = f"{field}, slot {phase}, {groups} groups, {processes} processes"
                np.testing.assert_array_equal(one[field], other[field], what)


def test_another_seed_is_another_trajectory() -> None:
    """Else the comparison above would compare constants."""
    fields = []
    for run_seed in (1, 2):
        envs = make(settings_for("CartPole-v1", run_seed=run_seed), 8)
        envs.start()
        policy = hashing_policy(envs.trajectory.spec.action)
        fields += [copy_of(slot) for slot in phases(envs, policy, 1)]
        envs.close()
    assert not np.array_equal(fields[0]["observation/"], fields[1]["observation/"])


@pytest.mark.parametrize("processes", [0, 2])
def test_decorrelation_is_a_prefix_that_can_be_played_again(processes: int) -> None:
    """The first row is what the prefix leads to from the episode's seed; its length differs by env."""
    from veldt.envs.seeding import episode_seed

    settings = settings_for(scripted, num_envs=8, random_start_steps=40)
    envs = make(settings, 2, groups=1, processes=processes)
    prefixes = envs.start()
    slot = envs.trajectory
    for b in range(8):
        env = scripted()
        observation, _ = env.reset(seed=episode_seed(settings.run_seed, b, int(slot.episode[0, b])))
        total = 0.0
        for action in prefixes[b].actions:
            observation, reward, terminated, truncated, _ = env.step(int(action))
            assert not (terminated or truncated)
            total += reward
        np.testing.assert_array_equal(slot.observation[""][0, b], observation)
        assert slot.episode_step[0, b] == len(prefixes[b].actions) and prefixes[b].score == total
    assert len({int(episode_step) for episode_step in slot.episode_step[0]}) > 2
    envs.close()
