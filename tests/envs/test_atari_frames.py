"""Frames, rewards and lives of the native Atari env against a naive emulator loop, over several games."""

from __future__ import annotations

import numpy as np
import pytest
from atari_oracle import NaiveAtari, area_averaged, halved

from veldt.envs.atari import NativeAtari
from veldt.envs.settings import AtariConfig

GAMES = ["Breakout", "Pong", "SpaceInvaders", "Seaquest"]
TALL = "AirRaid"  # 250 rows where most games have 210
ROMS = {"Breakout": "breakout", "Pong": "pong", "SpaceInvaders": "space_invaders", "Seaquest": "seaquest"}
ROMS["AirRaid"] = "air_raid"


def check_against_naive(
    game: str, preprocessing: str, seeds: list[int], steps: int, tolerance: int, skip: int = 4
) -> None:
    config = AtariConfig(preprocessing=preprocessing, frame_skip=skip)  # type: ignore[arg-type]
    env = NativeAtari(f"ALE/{game}-v5", config)
    (shape,) = (field.shape for field in env.spec.observation.values())
    rows = [np.zeros((1, *shape), np.uint8)]
    changed = 0
    for seed in seeds:
        naive = NaiveAtari(ROMS[game], config, seed)
        actions = np.random.default_rng(seed).integers(0, len(naive.actions), steps)
        env.reset(seed, rows, 0)
        compare(rows[0][0], naive.first, tolerance, f"{game}, seed {seed}, first frame")
        for t, action in enumerate(actions.tolist()):
            before = rows[0][0].copy()
            reward, terminated, truncated, life_lost = env.step(action, rows, 0)
            lives = naive.ale.lives()
            expected_reward, grey = naive.step(action)
            compare(rows[0][0], grey, tolerance, f"{game}, seed {seed}, step {t}")
            assert reward == expected_reward
            assert terminated == naive.ale.game_over() and not truncated
            assert life_lost == (naive.ale.lives() < lives and not terminated)
            changed += not np.array_equal(before, rows[0][0])
            if terminated:
                break
    assert changed > steps / 4, "the picture hardly moves: the test would not see what is not drawn again"


def compare(frame: np.ndarray, grey: np.ndarray, tolerance: int, what: str) -> None:
    naive = halved(grey) if tolerance == 0 else area_averaged(grey, *frame.shape)
    difference = np.abs(frame.astype(float) - naive)
    places = np.argwhere(difference > tolerance)[:3]
    assert difference.max() <= tolerance, f"{what}: off by {difference.max()} at {places}"


@pytest.mark.parametrize("game", GAMES)
def test_halved_frames(game: str) -> None:
    check_against_naive(game, "104x80", [3, 11, 3], steps=250, tolerance=0)


@pytest.mark.parametrize("skip", [1, 2, 3])
def test_other_frame_skips(skip: int) -> None:
    check_against_naive("Pong", "104x80", [3, 11], steps=150, tolerance=0, skip=skip)


@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_resized_frames(game: str) -> None:
    check_against_naive(game, "84x84", [3, 11], steps=60, tolerance=1)


@pytest.mark.parametrize("preprocessing", ["104x80", "84x84"])
def test_tall_screen(preprocessing: str) -> None:
    check_against_naive(TALL, preprocessing, [3, 11], steps=60, tolerance=1)
