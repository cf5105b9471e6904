"""Checks the size of a replay buffer: at least one return per env, at most the machine's memory."""

from __future__ import annotations

import math

from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.formatting import gib
from veldt.replay.rows import ring_rows, row_bytes
from veldt.replay.settings import NStep, ReplayConfig, is_compressed
from veldt.runtime.system_memory import available_memory

_BYTES_OBJECT = 48  # an empty bytes object and a reference to it


def replay_bytes(spec: EnvSpec, width: int, config: ReplayConfig, returns: NStep) -> int:
    """Returns the bytes of a full replay buffer; the minimum if frames are compressed."""
    rows = width * ring_rows(spec, math.ceil(config.buffer_size / width), returns.steps)
    compressed = [
        field for field in spec.observation.values() if config.compress_frames and is_compressed(field)
    ]
    spared = sum(math.prod(field.shape) - _BYTES_OBJECT for field in compressed)
    plain = rows * (row_bytes(spec) - spared)
    if config.replay != "prioritised":
        return plain
    from veldt.replay.sum_tree import tree_bytes  # here, because it loads numba

    return plain + tree_bytes(rows)


def transitions_each(spec: EnvSpec, width: int, config: ReplayConfig, returns: NStep) -> int:
    """Returns the transitions per env, rounded up; UsageError if the size is not possible.

    The size of compressed frames is unknown; only their fixed part is counted.
    """
    size, share = config.buffer_size, math.ceil(config.buffer_size / width)
    if size < width:
        raise UsageError(f"--buffer-size is {size}: it must be at least 1 for each of the {width} envs")
    if returns.steps > share:
        raise UsageError(
            f"--buffer-size is {size}, {share} for each of the {width} envs: it must be more than "
            f"{width * (returns.steps - 1)} for returns over {returns.steps} steps"
        )
    needed = replay_bytes(spec, width, config, returns)
    per_row = needed / (width * ring_rows(spec, share, returns.steps))
    check_memory("--buffer-size", size, needed, per_row, width * ring_rows(spec, 0, returns.steps))
    return share


def check_memory(flag: str, size: int, needed: float, each: float, besides: int = 0) -> None:
    """UsageError if `size` items, set by `flag`, need more bytes than this machine has available.

    Args:
        each: bytes of one item.
        besides: number of items needed in addition to those set.
    """
    available = available_memory()
    if needed > available:
        raise UsageError(
            f"{flag} is {size:,} and needs {gib(needed)} of memory, {gib(available)} are available: "
            f"{_about(available / each - besides):,} would fit"
        )


def _about(number: float) -> int:
    """Rounds down to two digits, which leaves some room."""
    unit = 10 ** max(0, int(math.log10(max(1.0, number))) - 1)
    return int(max(0.0, number) // unit * unit)
