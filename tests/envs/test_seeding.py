"""Seeds differ for every env and every episode."""

from __future__ import annotations

import itertools

from veldt.envs.seeding import episode_seed


def test_every_episode_of_every_env_has_a_seed_of_its_own() -> None:
    """Also those whose indices have the same sum or product, and those of a run with the next seed."""
    episodes = list(itertools.product((1, 2), range(16), range(16)))
    assert len({episode_seed(*which) for which in episodes}) == len(episodes)
