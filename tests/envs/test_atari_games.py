"""Atari games: lives, raw rewards, no-ops, sticky actions, saved states; all of it by seed."""

from __future__ import annotations

import numpy as np
import pytest

from veldt.envs import atari as atari_module
from veldt.envs.atari import NativeAtari
from veldt.envs.settings import AtariConfig
from veldt.errors import UsageError

Signals = list[tuple[float, bool, bool, bool]]


def play(env: NativeAtari, actions: np.ndarray, seed: int | None = None) -> tuple[np.ndarray, Signals]:
    """Frames [T, 104, 80] and (reward, terminated, truncated, life lost) of each step; resets if a seed is given."""
    rows = [np.zeros((1, 104, 80), np.uint8)]
    if seed is not None:
        env.reset(seed, rows, 0)
    frames, signals = [rows[0][0].copy()] if seed is not None else [], []
    for action in actions.tolist():
        signals.append(env.step(action, rows, 0))
        frames.append(rows[0][0].copy())
    return np.array(frames), signals


def some_actions(count: int, actions: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, actions, count)


def same(one: tuple[np.ndarray, Signals], other: tuple[np.ndarray, Signals]) -> bool:
    return np.array_equal(one[0], other[0]) and one[1] == other[1]


def test_a_lost_life_is_marked_and_the_game_continues() -> None:
    _, signals = play(NativeAtari("ALE/Breakout-v5", AtariConfig()), some_actions(600), seed=1)
    over = [terminated for _, terminated, _, _ in signals].index(True)
    # Five lives: four are lost with a signal, the fifth with the game.
    assert sum(life_lost for _, _, _, life_lost in signals[: over + 1]) == 4
    assert not signals[over][3]


def test_rewards_are_raw() -> None:
    _, signals = play(NativeAtari("ALE/SpaceInvaders-v5", AtariConfig()), some_actions(250, 6), seed=1)
    assert {5.0, 10.0} <= {reward for reward, _, _, _ in signals}


def test_the_number_of_no_ops_depends_on_the_seed_only() -> None:
    env = NativeAtari("ALE/SpaceInvaders-v5", AtariConfig(no_ops=30))
    states = {}
    for seed in [*range(12), 4, 7]:
        play(env, some_actions(0), seed)
        assert states.setdefault(seed, env.save()) == env.save()
    starts = {state[atari_module._STATE.size :] for state in states.values() if state is not None}
    assert len(starts) > 6
    fixed = NativeAtari("ALE/SpaceInvaders-v5", AtariConfig(no_ops=0))
    firsts = [play(fixed, some_actions(0), seed)[0] for seed in (1, 2)]
    assert np.array_equal(*firsts)


def test_the_same_seed_is_the_same_game_whatever_was_played_before() -> None:
    env, actions = NativeAtari("ALE/Seaquest-v5", AtariConfig()), some_actions(150, 18)
    first = play(env, actions, seed=9)
    play(env, some_actions(200, 18, seed=1), seed=4)
    assert same(play(env, actions, seed=9), first)
    assert same(play(NativeAtari("ALE/Seaquest-v5", AtariConfig()), actions, seed=9), first)


def test_sticky_actions_are_drawn_from_the_seed() -> None:
    config, actions = AtariConfig(sticky_actions=0.25, no_ops=0), some_actions(200)
    first = play(NativeAtari("ALE/Breakout-v5", config), actions, seed=9)
    env = NativeAtari("ALE/Breakout-v5", config)
    assert not same(play(env, actions, seed=8), first)
    assert same(play(env, actions, seed=9), first)
    assert not same(play(NativeAtari("ALE/Breakout-v5", AtariConfig(no_ops=0)), actions, seed=9), first)


def test_sticky_actions_repeat_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted at the emulator: with actions that change at every step, a frame's action is the step's or the last."""
    env = NativeAtari("ALE/Breakout-v5", AtariConfig(sticky_actions=0.25, no_ops=0))
    rows = [np.zeros((1, 104, 80), np.uint8)]
    env.reset(3, rows, 0)
    acted: list[int] = []
    emulator = env._ale

    class Counting:
        def act(self, action: object) -> int:
            acted.append(env._actions.index(action))
            return int(emulator.act(action))

        def __getattr__(self, name: str) -> object:
            return getattr(emulator, name)

    monkeypatch.setattr(env, "_ale", Counting())
    wanted = [2, 3] * 1000
    for action in wanted:
        env.step(action, rows, 0)
    stuck = [frame != wanted[i // 4] for i, frame in enumerate(acted)]
    # Within a step the wanted action, once taken, repeats itself: 0.25 + 0.25**2 + ... + 0.25**4 of four frames.
    expected = sum(0.25**k for k in range(1, 5)) / 4
    assert abs(np.mean(stuck) - expected) < 0.01


@pytest.mark.parametrize("skip", [1, 4])
@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("at", [0, 37, 120])
def test_another_instance_continues_from_a_saved_state(
    skip: int, sticky: float, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        atari_module, "_DRAWS", 64
    )  # so that the state is saved on both sides of a new block of draws
    config = AtariConfig(frame_skip=skip, sticky_actions=sticky, max_episode_steps=180)
    actions = some_actions(200)
    whole = NativeAtari("ALE/Breakout-v5", config)
    play(whole, actions[:at], seed=9)
    state = whole.save()
    assert state is not None
    rest = play(whole, actions[at:])
    other = NativeAtari("ALE/Breakout-v5", config)
    play(other, some_actions(50, seed=3), seed=2)
    other.restore(state)
    assert same(play(other, actions[at:]), rest)


def test_long_games_are_truncated() -> None:
    env = NativeAtari("ALE/Breakout-v5", AtariConfig(max_episode_steps=20))
    for seed in (1, 2):
        _, signals = play(env, some_actions(20), seed)
        assert [truncated for _, _, truncated, _ in signals] == [False] * 19 + [True]


def test_action_sets() -> None:
    assert NativeAtari("ALE/Pong-v5", AtariConfig()).spec.action.sizes == (6,)
    assert NativeAtari("ALE/Pong-v5", AtariConfig(full_action_space=True)).spec.action.sizes == (18,)


def test_unknown_game() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'ALE/Breakout-v5'"):
        NativeAtari("ALE/Brekout-v5", AtariConfig())
