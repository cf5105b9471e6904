"""Builds stacks of frames on the CPU in one pass through memory, in the format of `functional.frames`.

A module of its own, so that numba is loaded only where frames are stacked. `frames` are uint8 [F, H, W]. Indices
int64 [stack] select the frames of a row's stack, oldest first; -1 is a blank frame from before the episode's start.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from veldt.compiled import njit

_STACKS_PER_THREAD = 32  # about 0.3 ms of work: less is not worth a thread


@njit()
def slot_frames(episode_step, row_N, stack):  # type: ignore[no-untyped-def]
    """Returns the frame indices, int64 [N, stack], of the stacks of rows t B + b (`row_N` int64 [N]) of a slot.

    The slot's frames are [stack - 1 + T, B], with row t's own frame at t + stack - 1. `episode_step` is int32 [T, B].
    """
    width = episode_step.shape[1]
    frame_NK = np.empty((len(row_N), stack), np.int64)
    for n in range(len(row_N)):
        t, b = divmod(row_N[n], width)
        for k in range(stack):
            frame_NK[n, k] = row_N[n] + k * width if episode_step[t, b] >= stack - 1 - k else -1
    return frame_NK


def write_stacks(
    frames: np.ndarray, frame_SNK: np.ndarray, out_S: Iterable[np.ndarray], threads: int = 1
) -> None:
    """Writes the stacks of `frame_SNK` into S arrays uint8 [N, H, W, stack]; they and `frames` are in C order.

    A row's S stacks are made one after the other, so that frames in several of them are read from memory once.
    """
    sets, rows, stack = frame_SNK.shape
    if not rows:  # an env process may have no env of a group
        return
    frame_FP, out = frames.reshape(len(frames), -1), tuple(out_S)
    assert all(array.flags.c_contiguous for array in out), "of another array, `reshape` would return a copy"
    if stack == 4:
        kernel, out = interleave_four, tuple(array.view(np.uint32).reshape(rows, -1) for array in out)
    else:
        kernel, out = interleave, tuple(array.reshape(rows, -1, stack) for array in out)
    threads = min(threads, sets * rows // _STACKS_PER_THREAD)
    if threads <= 1:
        kernel(frame_FP, frame_SNK, out, 0, rows)
        return
    edges = itertools.pairwise([rows * i // threads for i in range(threads + 1)])
    for piece in [_pool().submit(kernel, frame_FP, frame_SNK, out, *edge) for edge in edges]:
        piece.result()


@njit()
def interleave(frame_FP, frame_SNK, stack_SNPK, first, end):  # type: ignore[no-untyped-def]
    """Writes the stacks of rows `first` up to `end`; `stack_SNPK` is a tuple of S arrays."""
    pixels, stack = frame_FP.shape[1], frame_SNK.shape[2]
    blank_P = np.zeros(pixels, np.uint8)
    for n in range(first, end):
        for s in range(len(stack_SNPK)):
            stack_PK = stack_SNPK[s][n]
            for k in range(stack):
                frame_P = frame_FP[frame_SNK[s, n, k]] if frame_SNK[s, n, k] >= 0 else blank_P
                for x in range(pixels):
                    stack_PK[x, k] = frame_P[x]


@njit()
def interleave_four(frame_FP, frame_SNK, word_SNP, first, end):  # type: ignore[no-untyped-def]
    """Stacks of 4, the usual case, in a quarter of the time: the four bytes of a pixel are written as one word."""
    pixels = frame_FP.shape[1]
    blank_P = np.zeros(pixels, np.uint8)
    for n in range(first, end):
        for s in range(len(word_SNP)):
            word_P = word_SNP[s][n]
            oldest_P = frame_FP[frame_SNK[s, n, 0]] if frame_SNK[s, n, 0] >= 0 else blank_P
            older_P = frame_FP[frame_SNK[s, n, 1]] if frame_SNK[s, n, 1] >= 0 else blank_P
            old_P = frame_FP[frame_SNK[s, n, 2]] if frame_SNK[s, n, 2] >= 0 else blank_P
            newest_P = frame_FP[frame_SNK[s, n, 3]] if frame_SNK[s, n, 3] >= 0 else blank_P
            for x in range(pixels):
                low = np.uint32(oldest_P[x]) | (np.uint32(older_P[x]) << np.uint32(8))
                high = np.uint32(old_P[x]) | (np.uint32(newest_P[x]) << np.uint32(8))
                word_P[x] = low | (high << np.uint32(16))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="stack-frames")
