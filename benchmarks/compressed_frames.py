"""Frames on the way from an actor to a replay shard, as they are and compressed: prints a Markdown table.

    python benchmarks/compressed_frames.py [--games Breakout Pong ...] [--slots 60]

Slots are those of `apex-dqn` on Atari, filled by random play. All times are CPU time per transition, so that busy
neighbours matter little:

- copy: copying the slot to where the shard reads it
- compress: compressing the slot's new frames (zlib's fastest level, as in the shard)
- store, draw: what a shard does with a transition, without and with --compress-frames
- pays below: the speed of a link on which the bytes that are saved take as long as compressing them
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable

import numpy as np

from veldt.algorithms.base import OffPolicy
from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.source import resolve
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Rows, row_layouts
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import ReplayConfig
from veldt.runtime.shared import SharedArrays

WIDTH, BATCH, DRAWS = 4, 512, 10


def measured(game: str, slots: int) -> list[str]:
    """Returns a row of the table."""
    config = with_settings(find("apex-dqn").config(f"ALE/{game}-v5"), {"num_envs": WIDTH, "actors": 1})
    source = resolve(config.env)
    spec = probe_spec(source, config.atari)
    algorithm = config.make_algorithm(spec.action)
    assert isinstance(algorithm, OffPolicy)
    steps = config.roles.rows(WIDTH, algorithm.returns.steps)  # type: ignore[attr-defined]
    filled = [SharedArrays(row_layouts(spec, steps, WIDTH), None) for _ in range(slots)]
    envs = make_vector_envs(
        StepperSettings(source, 1, config.envs, config.atari),
        spec,
        steps,
        Arrangement("in-process", 0, 1, (), ""),
    )
    rng = np.random.default_rng(0)
    envs.start()
    for arrays in filled:
        for t in range(steps):
            envs.trajectory.action[t] = rng.integers(0, spec.action.sizes[0], WIDTH)
            envs.step(0, t)
            envs.wait(0, t)
        envs.trajectory.copy_to(arrays)
        envs.start_next_rollout()
    envs.close()
    blocks = [Rows(spec, arrays) for arrays in filled]
    count = slots * steps * WIDTH
    other = SharedArrays(row_layouts(spec, steps, WIDTH), None)
    copy = cpu(lambda: [np.copyto(other.block, arrays.block) for arrays in filled]) / count
    sizes: list[int] = []
    compress = cpu(lambda: sizes.extend(packed(block) for block in blocks)) / count
    times = []
    for compressed in (False, True):
        replay = ReplayConfig(buffer_size=count, compress_frames=compressed)
        buffer = ReplayBuffer(spec, WIDTH, replay, algorithm.returns, 1)
        for block in blocks:  # compiles it, and touches the ring's memory
            buffer.append(block)
        times.append(cpu(lambda buffer=buffer: [buffer.append(block) for block in blocks]) / count)
        layouts = batch_layouts(spec, BATCH)
        shared = SharedArrays(layouts, None)
        batch = ReplayBatch({name: shared[name] for name in layouts})
        buffer.sample(batch, 0)  # compiles it
        drawn = cpu(lambda buffer=buffer, batch=batch: [buffer.sample(batch, n) for n in range(DRAWS)])
        times.append(drawn / (DRAWS * BATCH))
    raw = filled[0].block.nbytes * slots / count
    small = sum(sizes) / count + raw - sum(block.observation[""].nbytes for block in blocks) / count
    saved = (raw - small) / compress / 1e6
    return [
        game,
        f"{raw:,.0f}",
        f"{small:,.0f}",
        *(f"{1e6 * seconds:,.1f}" for seconds in (copy, compress, times[0], times[2], times[1], times[3])),
        f"{saved:,.0f}",
    ]


def packed(block: Rows) -> int:
    """Returns the bytes of the slot's new frames, compressed."""
    frames = block.observation[""][block.history + 1 :]
    return sum(len(zlib.compress(frame, 1)) for row in frames for frame in row)


def cpu(work: Callable[[], object]) -> float:
    """Returns the CPU seconds of this process and its threads."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", nargs="+", default=["Breakout", "Pong", "Seaquest", "MsPacman"])
    parser.add_argument("--slots", type=int, default=60)
    asked = parser.parse_args()
    head = (
        "game | bytes | compressed | copy | compress | store | compressing | draw | compressed | pays below"
    )
    print(f"| {head} |\n{'| --- ' * 10}|")
    for game in asked.games:
        print(f"| {' | '.join(measured(game, asked.slots))} |", flush=True)


if __name__ == "__main__":
    main()
