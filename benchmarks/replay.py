"""The replay buffer beside what bounds it, on this machine, in one run: prints a Markdown table.

    python benchmarks/replay.py                    # a million Atari transitions, 8.4 GB (about two minutes)
    python benchmarks/replay.py --size 200_000     # less memory
    python benchmarks/replay.py --json             # the metrics as JSON

- prioritised: a batch drawn and given new priorities, in rounds a second, against cpprb's C++ tree
  (`benchmarks/peers/setup.sh cpprb`)
- run_plan: states and next states of a batch from all over the ring, against copying as many bytes from one stretch of
  memory to another with as many threads
- append: a slot of frames, against copying them to where the ring's memory would be
- memory: bytes of a transition, against those of its single frame
- disk: writing the whole buffer beside a checkpoint and reading it again, against copying that file on the same disk
  (what is read has been dropped from the page cache)

Figures are medians over repetitions in which both sides take turns. The machine must be idle.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from running import peer
from table import TableRow

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.replay.archive import ReplayArchive
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.sampling_strategy import Prioritised
from veldt.replay.settings import NStep, ReplayConfig
from veldt.replay.size import replay_bytes
from veldt.runtime.cores import allowed_cores

ACTION = ActionSpec("discrete", sizes=(18,), start=(0,))
ATARI = EnvSpec({"": ArraySpec((104, 80), "uint8", 4)}, ACTION)
NUMBER = EnvSpec({"": ArraySpec((1,), "float32")}, ACTION)
BATCH, WIDTH, ITEMS = 512, 16, 2**20
SHAPES = [(4, 16), (1, 256), (64, 16)]  # steps and envs of slots


def full_slot(spec: EnvSpec, steps: int, width: int) -> Trajectory:
    """Steps from the midst of long episodes, with random observations."""
    slot = Trajectory(spec, steps, width, None)
    rng = np.random.default_rng(0)
    for array in slot.observation.values():
        array[...] = rng.integers(0, 256, array.shape, np.uint8)
    slot.valid[...] = True
    slot.episode_step[...] = 100
    return slot


def filled(spec: EnvSpec, width: int, config: ReplayConfig, returns: NStep, threads: int) -> ReplayBuffer:
    """A full replay buffer, each of whose slots came with random priorities."""
    replay, slot = ReplayBuffer(spec, width, config, returns, threads), full_slot(spec, 64, width)
    rng = np.random.default_rng(0)
    while len(replay) < replay.capacity:
        replay.append(slot, rng.random(slot.reward.shape) if config.replay == "prioritised" else None)
    return replay


def in_turn(repetitions: int, *works: Callable[[], object]) -> list[float]:
    """Median seconds of each, after one call that compiles it and touches its memory."""
    seconds: list[list[float]] = [[] for _ in works]
    for repetition in range(repetitions + 1):
        for times, work in zip(seconds, works, strict=True):
            begin = time.perf_counter()
            work()
            if repetition:
                times.append(time.perf_counter() - begin)
    return [statistics.median(times) for times in seconds]


def prioritised(repetitions: int) -> Iterator[TableRow]:
    config = ReplayConfig(buffer_size=ITEMS, replay="prioritised")
    index = filled(NUMBER, 1, config, NStep(1, 0.99, False, False), 1).index
    assert isinstance(index, Prioritised)
    priority, rounds = np.random.default_rng(0).random((64, BATCH)), 2000

    def draw_and_update() -> None:
        for i in range(rounds):
            position_N, _ = index.sample(BATCH, i)
            index.update(position_N, priority[i % len(priority)])

    ours, theirs = [], []
    for _ in range(repetitions):
        ours.append(rounds / in_turn(1, draw_and_update)[0])
        theirs.append(peer("cpprb", "cpprb_tree.py", "--items", str(ITEMS), "--batch", str(BATCH))["sps"])
    yield TableRow(
        f"prioritised, {BATCH} of 2^20, /s", statistics.median(ours), "cpprb", statistics.median(theirs)
    )


def run_plan(repetitions: int, size: int, threads: int) -> Iterator[TableRow]:
    replay = filled(ATARI, WIDTH, ReplayConfig(buffer_size=size), NStep(3, 0.99, True, True), threads)
    batch, seeds = ReplayBatch.allocate(batch_layouts(ATARI, BATCH)), iter(range(10**9))
    arrays = [*batch.observation.values(), *batch.next_observation.values()]
    shape, nbytes = (2 * BATCH, *arrays[0].shape[1:]), sum(array.nbytes for array in arrays)
    source, target = np.ones(shape, np.uint8), np.ones(shape, np.uint8)
    pool = ThreadPoolExecutor(threads)
    pieces = [slice(len(source) * i // threads, len(source) * (i + 1) // threads) for i in range(threads)]

    def copy() -> None:
        list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces))

    sample, plain = in_turn(repetitions, lambda: replay.sample(batch, next(seeds)), copy)
    what = f"sample {BATCH} of {size:,} Atari transitions, {threads} threads, GB/s"
    yield TableRow(what, nbytes / sample / 1e9, "contiguous copy", nbytes / plain / 1e9)


def append(repetitions: int) -> Iterator[TableRow]:
    for steps, width in SHAPES:
        config = ReplayConfig(buffer_size=20_000, replay="prioritised")
        replay = filled(ATARI, width, config, NStep(3, 0.99, True, True), 1)
        slot = full_slot(ATARI, steps, width)
        frames = slot.observation[""][slot.history + 1 :]
        room = np.ones((config.buffer_size // (steps * width), *frames.shape), np.uint8)
        places = itertools.cycle(room)
        works = (
            partial(replay.append, slot),
            lambda places=places, frames=frames: np.copyto(next(places), frames),
        )
        ours, copy = in_turn(40 * repetitions, *works)
        yield TableRow(f"append {steps} x {width}, µs", 1e6 * ours, "copy of its frames", 1e6 * copy, True)


def memory(size: int) -> Iterator[TableRow]:
    for kind in ("uniform", "prioritised"):
        config = ReplayConfig(buffer_size=size, replay=kind)  # type: ignore[arg-type]
        each = replay_bytes(ATARI, WIDTH, config, NStep(3, 0.99, True, True)) / size
        yield TableRow(f"memory, {kind}, bytes a transition", each, "a single frame", 104 * 80, True)


def disk(size: int, scratch: Path) -> Iterator[TableRow]:
    config, returns = ReplayConfig(buffer_size=size), NStep(3, 0.99, True, True)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        path = Path(directory)
        replay = filled(ATARI, WIDTH, config, returns, 1)
        archive = ReplayArchive(path, replay)
        begin = time.perf_counter()
        rows, arrays = archive.capture()
        paused = time.perf_counter() - begin
        segments = archive.write(rows)
        saved = time.perf_counter() - begin
        del replay
        file = path / segments[0]["file"]
        _forget(file)
        copied = _seconds_of_copy(file, path / "copy")
        _forget(file)
        again = ReplayBuffer(ATARI, WIDTH, config, returns)
        begin = time.perf_counter()
        ReplayArchive(path, again).restore(segments, arrays)
        restored = time.perf_counter() - begin
    yield TableRow(f"save {size:,} Atari transitions, s", saved, "copying the file", copied, True)
    yield TableRow("  of which training pauses, s", paused, "copying the file", copied, True)
    yield TableRow(f"restore {size:,} Atari transitions, s", restored, "copying the file", copied, True)


def _seconds_of_copy(source: Path, target: Path) -> float:
    begin = time.perf_counter()
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    seconds = time.perf_counter() - begin
    target.unlink()
    return seconds


def _forget(path: Path) -> None:
    """Drops a file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000, help="Atari transitions in the ring")
    parser.add_argument("--threads", type=int, default=len(allowed_cores()), help="for run_plan")
    parser.add_argument("--scratch", type=Path, default=Path("."), help="where the disk is measured")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the metrics as JSON instead of a table")
    asked = parser.parse_args()
    lines: list[TableRow] = []
    measurements = (
        prioritised(asked.repetitions),
        run_plan(6 * asked.repetitions, asked.size, asked.threads),
        append(asked.repetitions),
        memory(asked.size),
        disk(asked.size, asked.scratch),
    )
    if not asked.json:
        print("| what | veldt | peer or limit | theirs | ratio |\n| --- | --- | --- | --- | --- |")
    for line in itertools.chain(*measurements):
        lines.append(line)
        if not asked.json:
            metrics = f"{line.veldt:,.1f} | {line.peer} | {line.theirs:,.1f}"
            print(f"| {line.what} | {metrics} | {line.ratio:.2f} |", flush=True)
    if asked.json:
        print(json.dumps([vars(line) | {"ratio": line.ratio} for line in lines], indent=1))


if __name__ == "__main__":
    main()
