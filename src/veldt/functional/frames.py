"""Stacks of frames from single frames, at use."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def stack_frames(
    frames: Tensor, age_TB: Tensor, stack: int, t_N: Tensor, b_N: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """The last `stack` frames of rows (t, b), oldest first; frames from before the episode's start are 0.

    Args:
        frames: uint8 [stack - 1 + T, B, H, W]; row t's own frame is at t + stack - 1.
        age_TB: int32 [T, B], steps since the episode's first observation.
        t_N, b_N: int64 [N].
        dtype: uint8, or bfloat16 (of the same values, 0 to 255) for a network that computes in it: on the CPU that
            saves a pass over memory.

    Returns:
        [N, stack, H, W] in channels-last memory (the pixels of one place side by side), which is what the
        convolutions of both CPU and GPU want, and what makes the copy a single pass.
    """
    if frames.device.type == "cpu":
        return _stack_on_cpu(frames, age_TB, stack, t_N, b_N, dtype)
    position_K = torch.arange(stack, device=frames.device)
    taken = frames[t_N[:, None] + position_K, b_N[:, None]]
    before_start_NK = age_TB[t_N, b_N][:, None] < stack - 1 - position_K
    taken.masked_fill_(before_start_NK[:, :, None, None], 0)
    return taken.to(dtype, memory_format=torch.channels_last)


def _stack_on_cpu(
    frames: Tensor, age_TB: Tensor, stack: int, t_N: Tensor, b_N: Tensor, dtype: torch.dtype
) -> Tensor:
    from veldt.functional import frames_cpu

    direct = dtype == torch.bfloat16 and stack == 4
    out = np.empty((len(t_N), *frames.shape[2:], stack), np.uint16 if direct else np.uint8)
    four = frames_cpu.interleave_four_bf16 if direct else frames_cpu.interleave_four
    kernel = four if stack == 4 else frames_cpu.interleave
    kernel(frames.numpy(), age_TB.numpy(), t_N.numpy(), b_N.numpy(), out)
    stacked = torch.from_numpy(out)
    return (stacked.view(torch.bfloat16) if direct else stacked.to(dtype)).permute(0, 3, 1, 2)
