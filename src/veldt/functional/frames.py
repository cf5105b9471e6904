"""Stacks of frames from single frames, at use."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

_ROWS_PER_THREAD = 32  # about 0.3 ms of work: a thread for less is not worth waking


def stack_frames(
    frames: Tensor,
    age_TB: Tensor,
    stack: int,
    t_N: Tensor,
    b_N: Tensor,
) -> Tensor:
    """The last `stack` frames of rows (t, b), oldest first; frames from before the episode's start are 0.

    Args:
        frames: uint8 [stack - 1 + T, B, H, W]; row t's own frame is at t + stack - 1.
        age_TB: int32 [T, B], steps since the episode's first observation.
        t_N, b_N: int64 [N].

    Returns:
        [N, stack, H, W] in channels-last memory (the pixels of one place side by side), which is what the
        convolutions of both CPU and GPU want, and what makes the copy a single pass.
    """
    out = torch.empty((len(t_N), *frames.shape[2:], stack), dtype=torch.uint8, device=frames.device)
    if frames.device.type == "cpu":
        _stack_on_cpu(frames, age_TB, t_N, b_N, out)
    else:
        position_K = torch.arange(stack, device=frames.device)
        taken = frames[t_N[:, None] + position_K, b_N[:, None]]
        before_start_NK = age_TB[t_N, b_N][:, None] < stack - 1 - position_K
        out.copy_(taken.masked_fill_(before_start_NK[:, :, None, None], 0).permute(0, 2, 3, 1))
    return out.permute(0, 3, 1, 2)


def _stack_on_cpu(frames: Tensor, age_TB: Tensor, t_N: Tensor, b_N: Tensor, out: Tensor) -> None:
    from veldt.simulators.stacks import write_stacks

    inputs, t, b, stacks = (frames.numpy(), age_TB.numpy()), t_N.numpy(), b_N.numpy(), out.numpy()
    threads = min(torch.get_num_threads(), len(t) // _ROWS_PER_THREAD)
    if threads > 1:
        edges = [len(t) * i // threads for i in range(threads + 1)]
        pieces = [slice(first, end) for first, end in itertools.pairwise(edges)]
        list(_pool().map(lambda n: write_stacks(*inputs, t[n], b[n], stacks[n]), pieces))
    else:
        write_stacks(*inputs, t, b, stacks)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="stack-frames")
