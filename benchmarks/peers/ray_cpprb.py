"""A Ray actor that holds cpprb's prioritised buffer: others add blocks of transitions, one draws and renews priorities.

All of them are Ray actors, as fast as they can; every adder has two blocks under way, the sampler a few batches.
"""

import argparse
import os
import time

import numpy as np
import ray
from cpprb import PrioritizedReplayBuffer
from measure import report


@ray.remote(num_cpus=0)
class Buffer:
    def __init__(self, items: int, env: dict, compressed: dict) -> None:
        self._buffer = PrioritizedReplayBuffer(items, env, alpha=0.6, **compressed)
        self.added = self.drawn = 0

    def add(self, block: dict, priorities: np.ndarray) -> None:
        self._buffer.add(**block, priorities=priorities)
        self.added += len(priorities)

    def sample(self, count: int) -> dict:
        self.drawn += count
        return self._buffer.sample(count, beta=0.4)

    def update(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self._buffer.update_priorities(indexes, priorities)

    def counts(self) -> tuple:
        return self.added, self.drawn, self._buffer.get_stored_size()


@ray.remote(num_cpus=0)
class Adder:
    def __init__(self, buffer, block: dict) -> None:
        self._buffer, self._block = buffer, block

    def run(self, seconds: float) -> None:
        rng, under_way = np.random.default_rng(0), []
        count, end = len(self._block["rew"]), time.monotonic() + seconds
        while time.monotonic() < end:
            under_way.append(self._buffer.add.remote(self._block, rng.random(count)))
            if len(under_way) > 1:
                ray.get(under_way.pop(0))


@ray.remote(num_cpus=0)
class Sampler:
    def __init__(self, buffer, batch: int, ahead: int) -> None:
        self._buffer, self._batch, self._ahead = buffer, batch, ahead

    def run(self, seconds: float) -> None:
        rng, under_way, end = np.random.default_rng(1), [], time.monotonic() + seconds
        while time.monotonic() < end:
            while len(under_way) < self._ahead:
                under_way.append(self._buffer.sample.remote(self._batch))
            batch = ray.get(under_way.pop(0))
            self._buffer.update.options(num_returns=0).remote(batch["indexes"], rng.random(self._batch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--block", type=int, default=52, help="transitions that are added at once")
    parser.add_argument("--adders", type=int, default=4)
    parser.add_argument("--ahead", type=int, default=4, help="batches under way")
    parser.add_argument("--shape", type=int, nargs="+", default=[4])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()

    # 15 by default, which any neighbour would take advantage of.
    os.environ.update(RAY_worker_niceness="0")
    ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False, num_cpus=8)
    field = {"shape": tuple(args.shape), "dtype": args.dtype}
    env = {"obs": field, "act": {"dtype": "int64"}, "rew": {}, "disc": {}, "next_obs": field}
    rng = np.random.default_rng(0)
    block = {
        name: rng.integers(0, 2, (args.block, *what.get("shape", (1,)))).astype(what.get("dtype", "float32"))
        for name, what in env.items()
    }
    buffer = Buffer.remote(args.items, env, {})
    rest = args.items
    while rest > 0:  # full at the start
        ray.get(buffer.add.remote(block, np.ones(args.block)))
        rest -= args.block
    roles = [Adder.remote(buffer, block) for _ in range(args.adders)] + [
        Sampler.remote(buffer, args.batch, args.ahead)
    ]
    running = [role.run.remote(args.seconds + 2.0) for role in roles]
    time.sleep(1.5)
    before, begin = ray.get(buffer.counts.remote()), time.perf_counter()
    time.sleep(args.seconds)
    after, seconds = ray.get(buffer.counts.remote()), time.perf_counter() - begin
    ray.get(running)
    added, drawn = after[0] - before[0], after[1] - before[1]
    report(
        "cpprb in a Ray actor",
        f"{args.adders} add blocks of {args.block}, one draws {args.batch} and renews their priorities",
        steps=added,
        seconds=seconds,
        packages=("cpprb", "ray"),
        settings={"items": args.items, "shape": args.shape},
        adds=added / seconds,
        samples=drawn / seconds,
    )


if __name__ == "__main__":
    main()
