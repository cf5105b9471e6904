"""Stacks made at use against stacks looked up frame by frame."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from veldt.functional.frames import stack_frames

STEPS, WIDTH = 9, 3


@pytest.mark.parametrize("stack", [2, 4])
def test_stacks_hold_only_frames_of_the_present_episode(stack: int) -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(1, 256, (stack - 1 + STEPS, WIDTH, 5, 4)).astype(np.uint8)
    # Ages that count from the start of an episode and begin again now and then.
    episode_step = np.zeros((STEPS, WIDTH), np.int32)
    episode_step[0] = [0, 2, 9]
    for t in range(1, STEPS):
        episode_step[t] = np.where(rng.random(WIDTH) < 0.25, 0, episode_step[t - 1] + 1)
    t_N, b_N = rng.integers(0, STEPS, 40), rng.integers(0, WIDTH, 40)
    given = (torch.from_numpy(array) for array in (frames, episode_step))
    rows = (torch.from_numpy(array) for array in (t_N, b_N))
    got = stack_frames(*given, stack, *rows)
    assert got.shape == (40, stack, 5, 4)
    assert got.dtype == torch.uint8
    assert got.is_contiguous(memory_format=torch.channels_last)
    for n, (t, b) in enumerate(zip(t_N, b_N, strict=True)):
        for back in range(stack):
            frame = got[n, stack - 1 - back].numpy()
            if back > episode_step[t, b]:
                assert not frame.any()
            else:
                assert np.array_equal(frame, frames[t - back + stack - 1, b])
