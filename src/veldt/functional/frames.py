"""Builds frame stacks from single frames when they are needed."""

from __future__ import annotations

import torch
from torch import Tensor


def stack_frames(frames: Tensor, episode_step_TB: Tensor, stack: int, t_N: Tensor, b_N: Tensor) -> Tensor:
    """The last `stack` frames of rows (t, b), oldest first; frames before the episode's start are 0.

    Args:
        frames: uint8 [stack - 1 + T, B, H, W]; row t's own frame is at t + stack - 1.
        episode_step_TB: int32 [T, B], steps since the episode's first observation.
        t_N, b_N: int64 [N].

    Returns:
        [N, stack, H, W] in the channels-last layout (the channels of a pixel adjacent), which is the fast layout for
        convolutions on both CPU and GPU.
    """
    position_K = torch.arange(stack, device=frames.device)
    gathered = frames[t_N[:, None] + position_K, b_N[:, None]]
    before_start_NK = episode_step_TB[t_N, b_N][:, None] < stack - 1 - position_K
    gathered.masked_fill_(before_start_NK[:, :, None, None], 0)
    return gathered.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
