"""Random actions on CartPole-v1 through Gymnasium's vectors: what stepping costs when physics is free.

As everywhere, the rows that only report the reset after a finished game are not counted: with random actions
they are one in 23.
"""

import argparse
import itertools

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from measure import measure, report


def make() -> gymnasium.Env:
    """One env, without the checks that are meant for debugging."""
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument(
        "--vector", choices=("async", "sync"), default="async", help="processes, or one process"
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds stepped before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    # Shared memory is on by default; without copy the array that is handed out is the shared memory itself.
    vector = {"async": AsyncVectorEnv, "sync": SyncVectorEnv}[args.vector]
    pool = vector([make] * args.num_envs, copy=False)
    pool.reset(seed=args.seed)
    actions = itertools.cycle(np.random.default_rng(args.seed).integers(2, size=(1024, args.num_envs)))
    resetting = np.zeros(args.num_envs, bool)

    def step() -> int:
        nonlocal resetting
        _, _, terminated, truncated, _ = pool.step(next(actions))
        delivered = args.num_envs - int(resetting.sum())
        resetting = terminated | truncated
        return delivered

    steps, seconds = measure(step, seconds=args.seconds, warmup=args.warmup)
    pool.close()
    report(
        "gymnasium",
        f"random actions, {args.vector} vector, CartPole-v1",
        steps=steps,
        seconds=seconds,
        packages=("gymnasium", "numpy"),
        settings=vars(args),
    )


if __name__ == "__main__":
    main()
