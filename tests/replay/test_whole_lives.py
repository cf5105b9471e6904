"""What is sampled, against transitions looked up in whole lives: episodes of every ending, rings that wrap, n steps."""

from __future__ import annotations

import numpy as np
import pytest
from everything import everything
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import SPECS, World
from naive import sampleable, transition

from veldt.replay.memory import Replay, Sample
from veldt.replay.n_step import NStep
from veldt.replay.settings import ReplayConfig
from veldt.simulators.spec import SimulatorSpec


@settings(max_examples=120, deadline=None)
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
def test_every_transition_is_as_it_was_lived(
    spec: SimulatorSpec,
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
    world = World(spec, steps, width, waits, seed)
    replay = Replay(
        spec, width, ReplayConfig(replay_size=share * width, compress_frames=compress), returns, threads
    )
    for slot in world.slots(1 + 40 // steps):
        replay.append(slot)
        kept = set.union(*sampleable(world, returns.steps, share))
        assert len(replay) == len(kept)
    if kept:
        sample = everything(replay)
        assert sorted(sample.version_N) == sorted(kept)
        check(sample, world, returns)


def check(sample: Sample, world: World, returns: NStep) -> None:
    for n, number in enumerate(sample.version_N):
        wanted = transition(world, returns, int(number))
        np.testing.assert_array_equal(sample.action_N[n], wanted.action)
        assert sample.reward_N[n] == pytest.approx(wanted.reward, abs=1e-5)
        assert sample.discount_N[n] == pytest.approx(wanted.discount, abs=1e-6)
        for name, array in wanted.observation.items():
            np.testing.assert_array_equal(sample.observation[name][n], array, name)
        for name, array in wanted.next_observation.items():
            np.testing.assert_array_equal(sample.next_observation[name][n], array, name)
