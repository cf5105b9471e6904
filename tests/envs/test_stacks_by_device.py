"""Stacks made at use against a naive oracle, for random ages: the CPU's kernels and any device's indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from veldt.envs.stacks import slot_frames, write_stacks
from veldt.functional.frames import stack_frames


def in_one_pass(frames: Tensor, episode_step: Tensor, stack: int, t: Tensor, b: Tensor) -> Tensor:
    """The CPU's kernels, on several threads where there are rows enough."""
    out = np.full((len(t), *frames.shape[2:], stack), 77, np.uint8)
    frame_NK = slot_frames(episode_step.numpy(), (t * episode_step.shape[1] + b).numpy(), stack)
    write_stacks(frames.flatten(0, 1).numpy(), frame_NK[None], out[None], threads=3)
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def on_gpu(frames: Tensor, episode_step: Tensor, stack: int, t: Tensor, b: Tensor) -> Tensor:
    return stack_frames(frames.cuda(), episode_step.cuda(), stack, t.cuda(), b.cuda()).cpu()


def naive(frames: np.ndarray, episode_step: np.ndarray, stack: int, t: int, b: int) -> np.ndarray:
    """Walks back from row t for as long as the episode lasts."""
    stacked = np.zeros((stack, *frames.shape[2:]), np.uint8)
    for back in range(min(stack, episode_step[t, b] + 1)):
        stacked[stack - 1 - back] = frames[t + stack - 1 - back, b]
    return stacked


BRANCHES = [
    in_one_pass,
    stack_frames,
    pytest.param(
        on_gpu, marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
    ),
]


@pytest.mark.parametrize("branch", BRANCHES)
@settings(max_examples=40, deadline=None)
@given(
    stack=st.integers(1, 5),
    steps=st.integers(1, 6),
    width=st.integers(1, 4),
    height=st.integers(1, 5),
    seed=st.integers(0, 2**31),
)
def test_stacks(branch: Any, stack: int, steps: int, width: int, height: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 256, (stack - 1 + steps, width, height, 3), dtype=np.uint8)
    episode_step = rng.integers(0, stack + 2, (steps, width), dtype=np.int32)
    count = int(rng.integers(1, 150))
    t, b = rng.integers(0, steps, count), rng.integers(0, width, count)
    given_frames, given_episode_step, *rows = (
        torch.from_numpy(array) for array in (frames, episode_step, t, b)
    )
    out = branch(given_frames, given_episode_step, stack, *rows)
    assert out.dtype == torch.uint8 and out.shape == (count, stack, height, 3)
    for n in rng.integers(0, count, 9).tolist():
        np.testing.assert_array_equal(
            out[n].numpy(), naive(frames, episode_step, stack, int(t[n]), int(b[n]))
        )


@pytest.mark.parametrize("branch", BRANCHES)
def test_stacks_are_in_channels_last_memory(branch: Any) -> None:
    frames, episode_step = torch.zeros(7, 2, 6, 5, dtype=torch.uint8), torch.zeros(4, 2, dtype=torch.int32)
    index = torch.zeros(3, dtype=torch.int64)
    assert branch(frames, episode_step, 4, index, index).is_contiguous(memory_format=torch.channels_last)
