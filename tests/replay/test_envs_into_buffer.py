"""Real envs into the buffer: samples equal the envs' steps, in both ways of resetting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from all_transitions import all_transitions

from environments import Scripted
from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import NStep, ReplayConfig

STEPS, WIDTH, SLOTS = 7, 3, 12
SCRIPT = [
    (1, "terminated"),
    (4, "truncated"),
    (9, "both"),
    (15, "truncated"),
]  # an episode's is by its seed's last bits


def full_slots(env: object, resets: str) -> Iterator[Trajectory]:
    """Each full slot, with steps numbered in place of policy versions; envs begin after some random steps."""
    config = EnvConfig(num_envs=WIDTH, resets=resets, random_start_steps=5)  # type: ignore[arg-type]
    settings = StepperSettings(resolve(env), 5, config, AtariConfig(max_episode_steps=9))
    arrangement = Arrangement("in-process", 0, 1, (), "for a test")
    spec = probe_spec(settings.source, settings.atari)
    envs = make_vector_envs(settings, spec, STEPS, arrangement, True, lambda b, t: None)
    slot, rng = envs.trajectory, np.random.default_rng(0)
    try:
        envs.start()
        for phase in range(SLOTS):
            for t in range(STEPS):
                slot.action[t] = spec.action.sample(rng, WIDTH)
                slot.version[t] = (phase * STEPS + t) * WIDTH + np.arange(WIDTH)
                envs.step(0, t)
                envs.wait(0, t)
            if resets == "wait":
                envs.reset_ended()
            yield slot
            envs.start_next_rollout()
            if resets == "wait":
                envs.finish_resets()
    finally:
        envs.close()


@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_every_step_leads_on_in_its_own_episode(resets: str) -> None:
    """Scripted environments tell seed, step and action apart in each observation and reward."""
    numbers: set[int] = set()
    replay = None
    for slot in full_slots(lambda: Scripted(SCRIPT), resets):
        replay = replay or ReplayBuffer(slot.spec, WIDTH, ReplayConfig(), NStep(1, 0.9, False, True))
        replay.append(slot)
        numbers |= set(slot.version[slot.valid].tolist())
    assert replay is not None
    sample = all_transitions(replay, slot.spec)
    assert set(sample.version_N.tolist()) == numbers, "none is lost, an episode's last one neither"
    seed, step, _ = sample.observation[""].T
    next_seed, next_step, next_action = sample.next_observation[""].T
    np.testing.assert_array_equal(next_seed, seed)
    np.testing.assert_array_equal(next_step, step + 1)
    np.testing.assert_array_equal(next_action, sample.action_N)
    np.testing.assert_array_equal(sample.reward_N, seed % 64 + next_step / 4 + 64 * sample.action_N)
    length, ending = zip(*[SCRIPT[int(bits) % len(SCRIPT)] for bits in seed], strict=True)
    over = (next_step == length) & [kind != "truncated" for kind in ending]
    np.testing.assert_array_equal(sample.discount_N == 0, over)


@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_stacks_are_those_that_the_policy_saw(resets: str) -> None:
    seen: dict[int, np.ndarray] = {}
    replay = None
    for slot in full_slots("ALE/Pong-v5", resets):
        replay = replay or ReplayBuffer(
            slot.spec, WIDTH, ReplayConfig(buffer_size=300), NStep(2, 0.9, True, True)
        )
        replay.append(slot)
        for t, b in np.argwhere(slot.valid):
            seen[int(slot.version[t, b])] = slot.stacks[""][t, b].copy()
    assert replay is not None
    sample = all_transitions(replay, slot.spec)
    assert len(sample.version_N) > 150
    for number, stack in zip(sample.version_N.tolist(), sample.observation[""], strict=True):
        np.testing.assert_array_equal(stack, seen[number])
