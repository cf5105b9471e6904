"""Rows, flags and episodes of random scripts, against an oracle that plays the same scripts step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Played, expected_rows, expected_steps, play
from slots import Policy, hashing_policy, make, phases, settings_for

from environments import Scripted
from veldt.envs.spec import ActionSpec
from veldt.envs.trajectory import Trajectory
from veldt.sampling.episodes import EpisodeTracker

ENDINGS = st.sampled_from(["terminated", "truncated", "both"])
SCRIPTS = st.lists(st.tuples(st.integers(1, 9), ENDINGS), min_size=1, max_size=4)
POLICY: Policy = hashing_policy(ActionSpec("discrete", sizes=(5,), start=(0,)))


@settings(max_examples=60, deadline=None)
@given(
    script=SCRIPTS,
    width=st.integers(1, 4),
    horizon=st.integers(1, 7),
    count=st.integers(1, 4),
    resets=st.sampled_from(["mid-batch", "wait"]),
    groups=st.integers(1, 2),
)
def test_rows_and_episodes(
    script: list[tuple[int, str]], width: int, horizon: int, count: int, resets: str, groups: int
) -> None:
    played = [play(script, POLICY, b, horizon, count, resets == "wait") for b in range(width)]
    config = settings_for(lambda: Scripted(script), num_envs=width, resets=resets)
    envs = make(config, horizon, min(groups, width))
    tracker = EpisodeTracker(width, envs.start())
    for phase, slot in enumerate(phases(envs, POLICY, count, resets)):
        check_rows(slot, played, phase)
        check_actions_until(tracker, slot, played, phase)
        check_games(tracker, slot, played, phase)
        check_unfinished(tracker, played, phase, horizon)
    envs.close()


def check_rows(slot: Trajectory, played: list[Played], phase: int) -> None:
    for name in ("episode_step", "is_last", "episode"):
        np.testing.assert_array_equal(
            getattr(slot, name), expected_rows(played, name, phase, slot.steps), name
        )
    np.testing.assert_array_equal(
        slot.observation[""], expected_rows(played, "observation", phase, slot.steps), "observation"
    )
    for name in ("valid", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(
            getattr(slot, name), expected_steps(played, name, phase, slot.steps), name
        )
    assert not slot.interrupted.any() and not slot.life_lost.any() and not slot.restarts.any()


def check_actions_until(tracker: EpisodeTracker, slot: Trajectory, played: list[Played], phase: int) -> None:
    """What a dead worker's envs would be rebuilt from, at every row, before the tracker has seen the slot."""
    for b, p in enumerate(played):
        for t in range(slot.steps + 1):
            actions = p.unfinished[phase * (slot.steps + 1) + t]
            if actions is not None:
                found = tracker.actions_until(slot, b, t)
                assert ([] if found is None else found.tolist()) == actions, (b, t)


def check_games(tracker: EpisodeTracker, slot: Trajectory, played: list[Played], phase: int) -> None:
    begin, end = phase * slot.steps, (phase + 1) * slot.steps
    expected = [episode for p in played for episode in p.episodes if begin < episode.end <= end]
    expected.sort(key=lambda episode: (episode.end, episode.env))
    episodes = tracker.add(slot)
    assert [
        (g.env_index, g.episode, g.episode_return, g.actions.tolist(), g.length, g.prefix) for g in episodes
    ] == [(g.env, g.episode, sum(g.rewards), g.actions, len(g.actions), 0) for g in expected]


def check_unfinished(tracker: EpisodeTracker, played: list[Played], phase: int, horizon: int) -> None:
    """What a checkpoint would rebuild every env from."""
    for b, p in enumerate(played):
        actions = p.unfinished[phase * (horizon + 1) + horizon]
        found = tracker.actions(b)
        if actions is not None:
            assert ([] if found is None else found.tolist()) == actions, b
