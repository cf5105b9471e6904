"""Builds stacks of frames on the CPU in one pass through memory, in the format of `functional.frames`.

A module of its own, so that numba is loaded only where frames are stacked. `frames` are uint8 [F, H, W]. Indices
int64 [stack] select the frames of a row's stack, oldest first; -1 is a blank frame from before the episode's start.
"""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

_STACKS_PER_THREAD = 32  # about 0.3 ms of work: less is not worth a thread


@numba.njit(nogil=True, cache=True)
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


def write_stacks(frames: np.ndarray, frame_SNK: np.ndarray, out: np.ndarray, threads: int = 1) -> None:
    """Writes the stacks of `frame_SNK` into `out` uint8 [S, N, H, W, stack]; both it and `frames` are in C order.

    A row's S stacks are made one after the other, so that frames in several of them are read from memory once.
    """
    sets, rows, stack = frame_SNK.shape
    kernel = interleave_four if stack == 4 else interleave
    threads = min(threads, sets * rows // _STACKS_PER_THREAD)
    if threads <= 1:
        kernel(frames, frame_SNK, out, 0, rows)
        return
    edges = itertools.pairwise([rows * i // threads for i in range(threads + 1)])
    for piece in [_pool().submit(kernel, frames, frame_SNK, out, *edge) for edge in edges]:
        piece.result()


@numba.njit(nogil=True, cache=True)
def interleave(frames, frame_SNK, out, first, end):  # type: ignore[no-untyped-def]
    """Writes the stacks of rows `first` up to `end`."""
    pixels, stack = frames.shape[1] * frames.shape[2], out.shape[4]
    frame_FP = frames.reshape(-1, pixels)
    blank_P = np.zeros(pixels, np.uint8)
    stack_SNPK = out.reshape(out.shape[0], out.shape[1], pixels, stack)
    for n in range(first, end):
        for s in range(len(out)):
            for k in range(stack):
                frame_P = frame_FP[frame_SNK[s, n, k]] if frame_SNK[s, n, k] >= 0 else blank_P
                for x in range(pixels):
                    stack_SNPK[s, n, x, k] = frame_P[x]


@numba.njit(nogil=True, cache=True)
def interleave_four(frames, frame_SNK, out, first, end):  # type: ignore[no-untyped-def]
    """Stacks of 4, the usual case, in a quarter of the time: the four bytes of a pixel are written as one word."""
    pixels = frames.shape[1] * frames.shape[2]
    frame_FP = frames.reshape(-1, pixels)
    blank_P = np.zeros(pixels, np.uint8)
    word_SNP = out.view(np.uint32).reshape(out.shape[0], out.shape[1], pixels)
    for n in range(first, end):
        for s in range(len(out)):
            oldest_P = frame_FP[frame_SNK[s, n, 0]] if frame_SNK[s, n, 0] >= 0 else blank_P
            older_P = frame_FP[frame_SNK[s, n, 1]] if frame_SNK[s, n, 1] >= 0 else blank_P
            old_P = frame_FP[frame_SNK[s, n, 2]] if frame_SNK[s, n, 2] >= 0 else blank_P
            newest_P = frame_FP[frame_SNK[s, n, 3]] if frame_SNK[s, n, 3] >= 0 else blank_P
            for x in range(pixels):
                low = np.uint32(oldest_P[x]) | (np.uint32(older_P[x]) << np.uint32(8))
                high = np.uint32(old_P[x]) | (np.uint32(newest_P[x]) << np.uint32(8))
                word_SNP[s, n, x] = low | (high << np.uint32(16))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="stack-frames")
