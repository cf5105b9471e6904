"""cpprb's prioritised buffer, a C++ sum tree: rounds of drawing a batch and giving it new priorities."""

import argparse

import numpy as np
from cpprb import PrioritizedReplayBuffer
from measure import measure, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=2**20)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds before the clock starts")
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    # The least that it can hold, for its sample brings the transitions along.
    buffer = PrioritizedReplayBuffer(args.items, {"reward": {}}, alpha=0.6)
    buffer.add(reward=np.zeros(args.items), priorities=rng.random(args.items))
    priority = rng.random((64, args.batch))
    rounds = 0

    def step() -> int:
        nonlocal rounds
        sample = buffer.sample(args.batch, beta=0.4)
        buffer.update_priorities(sample["indexes"], priority[rounds % len(priority)])
        rounds += 1
        return 1

    steps, seconds = measure(step, seconds=args.seconds, warmup=args.warmup)
    report(
        "cpprb",
        f"draw and update {args.batch} of {args.items} by priority, rounds a second",
        steps=steps,
        seconds=seconds,
        packages=("cpprb",),
        settings={"items": args.items, "batch": args.batch},
    )


if __name__ == "__main__":
    main()
