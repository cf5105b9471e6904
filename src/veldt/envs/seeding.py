"""Every random number of a run, as a pure function of (run seed, env, episode or step).

Nothing here has state. An env's seeds and action noise depend on its index and its own step count, never on the
process or batch that it shares. So the number of workers, the grouping and restarts do not change them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Streams keep the draws for different purposes independent of each other.
EPISODE, DECORRELATION, ACTION, SHUFFLE, NETWORK, EVALUATION, REPLAY, ACTOR = range(8)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def derive_seed(run_seed: int, stream: int, *index: int) -> int:
    """Returns a 31-bit seed for (run seed, stream, index...), for libraries that take an int."""
    entropy: Any = (run_seed, stream, *index)
    if min(entropy) >= 0 and max(entropy) < 2**32:  # a larger number becomes several words
        entropy = np.array(entropy, np.uint32)  # the same words as of integers, in half the time
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) >> 1


def episode_seed(run_seed: int, env: int, episode: int, stream: int = EPISODE) -> int:
    """Returns the seed with which `env` resets its `episode`-th episode."""
    return derive_seed(run_seed, stream, env, episode)


def _mix(bits: np.ndarray) -> np.ndarray:
    # The finaliser of SplitMix64 (Steele, Lea & Flood 2014): every input bit affects every output bit.
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


def uniform(run_seed: int, stream: int, env: np.ndarray, step: np.ndarray, count: int) -> np.ndarray:
    """Returns uniform noise in the open interval (0, 1) by env and step.

    Args:
        env: int [B], indices of envs.
        step: int [T], the envs' own step counters (each from the start of the run).
        count: numbers per step.

    Returns:
        float32 [T, B, count]; entry (t, b, k) depends on (run_seed, stream, env[b], step[t], k) alone.
    """
    with np.errstate(over="ignore"):
        key = _mix(np.array((run_seed * 8 + stream) % 2**64, np.uint64) + _GOLDEN)
        key_B = _mix(key ^ (np.asarray(env, np.uint64) + np.uint64(1)) * _GOLDEN)
        key_TB = _mix(key_B[None] ^ (np.asarray(step, np.uint64)[:, None] + np.uint64(1)) * _MIX_1)
        bits = _mix(key_TB[..., None] ^ (np.arange(1, count + 1, dtype=np.uint64) * _MIX_2))
    # 23 bits and a half: exactly representable in float32, and never 0 or 1, so that logarithms stay finite.
    return ((bits >> np.uint64(41)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)
