"""Samples against transitions in complete histories: episodes of every ending, rings that wrap, n steps."""

from __future__ import annotations

import numpy as np
import pytest
from all_transitions import all_transitions
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import sampleable, transition
from simulated_envs import SPECS, SimulatedEnvs

from veldt.envs.spec import EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.replay.batch import ReplayBatch
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.sampling_strategy import Prioritised
from veldt.replay.settings import NStep, ReplayConfig


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    steps=st.integers(1, 9),
    width=st.integers(1, 3),
    waits=st.booleans(),
    share=st.integers(1, 30),
    returns=st.builds(NStep, st.integers(1, 5), st.just(0.9), st.booleans(), st.booleans()),
    compress=st.booleans(),
    threads=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)
def test_sampled_transitions_equal_the_steps_of_the_envs(
    spec: EnvSpec,
    steps: int,
    width: int,
    waits: bool,
    share: int,
    returns: NStep,
    compress: bool,
    threads: int,
    seed: int,
) -> None:
    share = max(share, returns.steps)
    envs = SimulatedEnvs(spec, steps, width, waits, seed)
    replay = ReplayBuffer(
        spec, width, ReplayConfig(buffer_size=share * width, compress_frames=compress), returns, threads
    )
    for slot in envs.slots(1 + 40 // steps):
        replay.append(slot)
        kept = set.union(*sampleable(envs, returns.steps, share))
        assert len(replay) == len(kept)
    if kept:
        sample = all_transitions(replay, spec)
        assert sorted(sample.version_N) == sorted(kept)
        check(sample, envs, returns)


@settings(max_examples=30, deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    steps=st.integers(1, 9),
    widths=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    share=st.integers(3, 20),
    compress=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_envs_may_bring_their_slots_at_different_times(
    spec: EnvSpec, steps: int, widths: list[int], share: int, compress: bool, seed: int
) -> None:
    """The buffer is the same whether the parts of a slot are appended together or one after the other."""
    width, returns = sum(widths), NStep(3, 0.9, False, True)
    config = ReplayConfig(buffer_size=share * width, replay="prioritised", compress_frames=compress)
    together, apart = ReplayBuffer(spec, width, config, returns), ReplayBuffer(spec, width, config, returns)
    slots = [
        copy(slot, 0, width) for slot in SimulatedEnvs(spec, steps, width, False, seed).slots(30 // steps)
    ]
    rng = np.random.default_rng(seed)
    priorities = [rng.random(slot.reward.shape) for slot in slots]
    for slot, priority_TB in zip(slots, priorities, strict=True):
        together.append(slot, priority_TB)
    for first, count in zip(np.cumsum([0, *widths[:-1]]).tolist(), widths, strict=True):
        for slot, priority_TB in zip(slots, priorities, strict=True):
            apart.append(copy(slot, first, count), priority_TB[:, first : first + count], first)
    assert len(together) == len(apart)
    for index in (together.index, apart.index):
        assert isinstance(index, Prioritised)
    np.testing.assert_array_equal(together.index.tree.leaves, apart.index.tree.leaves)  # type: ignore[union-attr]
    if len(together):
        one, other = all_transitions(together, spec), all_transitions(apart, spec)
        for name in ("action_N", "reward_N", "discount_N", "version_N", "key_N"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in spec.observation:
            np.testing.assert_array_equal(one.observation[name], other.observation[name])
            np.testing.assert_array_equal(one.next_observation[name], other.next_observation[name])


def copy(slot: Trajectory, first: int, count: int) -> Trajectory:
    """Envs `first` and on of a slot, as it is now."""
    part, made = slice(first, first + count), Trajectory(slot.spec, slot.steps, count, None)
    for name, array in made.observation.items():
        array[...] = slot.observation[name][:, part]
    for name in ("episode_step", "is_last", "episode", "action", "reward", "version"):
        getattr(made, name)[...] = getattr(slot, name)[:, part]
    made.flags[...] = slot.flags[:, :, part]
    return made


def check(sample: ReplayBatch, envs: SimulatedEnvs, returns: NStep) -> None:
    for n, number in enumerate(sample.version_N):
        wanted = transition(envs, returns, int(number))
        np.testing.assert_array_equal(sample.action_N[n], wanted.action)
        assert sample.reward_N[n] == pytest.approx(wanted.reward, abs=1e-5)
        assert sample.discount_N[n] == pytest.approx(wanted.discount, abs=1e-6)
        for name, array in wanted.observation.items():
            np.testing.assert_array_equal(sample.observation[name][n], array, name)
        for name, array in wanted.next_observation.items():
            np.testing.assert_array_equal(sample.next_observation[name][n], array, name)
