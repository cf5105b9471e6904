"""Seeds differ for every env and every episode."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from veldt.envs.seeding import derive_seed, episode_seed


def test_every_episode_of_every_env_has_a_seed_of_its_own() -> None:
    """Also those whose indices have the same sum or product, and those of a run with the next seed."""
    episodes = list(itertools.product((1, 2), range(16), range(16)))
    assert len({episode_seed(*which) for which in episodes}) == len(episodes)


def test_numpy_s_numbers_are_those_of_python() -> None:
    for number in (7, 2**32 - 1, 2**33):
        assert derive_seed(np.int64(number), 1, np.int32(2)) == derive_seed(number, 1, 2)


@given(
    st.lists(
        st.one_of(st.integers(0, 9), st.integers(0, 2**80), st.sampled_from([2**32 - 1, 2**32])), min_size=2
    )
)
def test_a_seed_is_that_of_the_sequence_of_its_numbers(numbers: list[int]) -> None:
    sequence = np.random.SeedSequence(numbers)
    assert derive_seed(*numbers) == int(sequence.generate_state(1)[0]) >> 1
