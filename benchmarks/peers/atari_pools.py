"""Random actions through others' pools of Atari envs: grey, four frames skipped, four stacked.

A step is counted when a pool hands back the result of an action: the rows that are really in a batch (the
asynchronous pools return a part of their envs), without those that only report the reset after a
finished game, in which the action was ignored.
"""

import argparse
import itertools
import re

import numpy as np
from measure import measure, report


class EnvPool:
    """EnvPool: with `--batch` below `--num-envs` it returns whichever are ready first."""

    packages = ("envpool",)

    def __init__(self, args: argparse.Namespace):
        import envpool

        self.pool = envpool.make(
            f"{args.game}-v5",
            env_type="gymnasium",
            num_envs=args.num_envs,
            batch_size=args.batch,
            num_threads=args.threads,
            img_height=args.height,
            img_width=args.width,
            seed=args.seed,
        )
        self.actions = self.pool.action_space.n
        self.pool.async_reset()
        self.ids = self.pool.recv()[-1]["env_id"]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answer the batch received last; return whom the next one holds and which games ended."""
        self.pool.send(actions, self.ids)
        _, _, terminated, truncated, info = self.pool.recv()
        self.ids = info["env_id"]
        return self.ids, terminated | truncated


class AleVector:
    """ale-py's AtariVectorEnv. The actions must be legal: with one that is not, `recv` waits for ever."""

    packages = ("ale-py",)

    def __init__(self, args: argparse.Namespace):
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.pool = AtariVectorEnv(
            re.sub(r"(?<!^)(?=[A-Z])", "_", args.game).lower(),
            num_envs=args.num_envs,
            batch_size=args.batch,
            num_threads=args.threads,
            img_height=args.height,
            img_width=args.width,
        )
        self.actions = self.pool.single_action_space.n
        self.pool.reset(seed=args.seed)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As EnvPool's; the pool itself remembers whom the actions are for."""
        self.pool.send(actions)
        _, _, terminated, truncated, info = self.pool.recv()
        return info["env_id"], terminated | truncated


class GymnasiumAsync:
    """Gymnasium's AsyncVectorEnv, one process for each env, with its own Atari wrappers."""

    packages = ("gymnasium", "ale-py", "opencv-python-headless")

    def __init__(self, args: argparse.Namespace):
        from gymnasium.vector import AsyncVectorEnv

        def make():
            import ale_py
            import cv2
            import gymnasium
            from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

            # There are already more processes than cores; OpenCV's threads would only get in their way.
            cv2.setNumThreads(1)
            ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
            gymnasium.register_envs(ale_py)
            # Grey at the source: by default every skipped frame is converted to RGB and thrown away.
            env = gymnasium.make(
                f"ALE/{args.game}-v5",
                frameskip=1,
                repeat_action_probability=0.0,
                obs_type="grayscale",
                disable_env_checker=True,
            )
            env = AtariPreprocessing(env, frame_skip=4, screen_size=(args.width, args.height))
            return FrameStackObservation(env, 4)

        self.pool = AsyncVectorEnv([make] * args.num_envs, copy=False)
        self.actions = self.pool.single_action_space.n
        self.ids = np.arange(args.num_envs)
        self.pool.reset(seed=args.seed)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step all envs in lock step."""
        _, _, terminated, truncated, _ = self.pool.step(actions)
        return self.ids, terminated | truncated


POOLS = {
    "envpool-sync": EnvPool,
    "envpool-async": EnvPool,
    "ale-vector": AleVector,
    "gymnasium-async": GymnasiumAsync,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", choices=POOLS, required=True)
    parser.add_argument("--game", default="Breakout", help="name of the game, in CamelCase")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--batch", type=int, help="rows per batch (default: all, or half if envpool-async)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the C++ pools")
    parser.add_argument("--height", type=int, default=84)
    parser.add_argument("--width", type=int, default=84)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=float, default=3.0, help="seconds stepped before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.batch is None:
        args.batch = args.num_envs // 2 if args.pool == "envpool-async" else args.num_envs
    if args.batch != args.num_envs and args.pool in ("envpool-sync", "gymnasium-async"):
        parser.error(f"{args.pool} returns all envs at once: leave --batch out")

    pool = POOLS[args.pool](args)
    table = np.random.default_rng(args.seed).integers(pool.actions, size=(1024, args.batch), dtype=np.int32)
    actions = itertools.cycle(table)
    resetting = np.zeros(args.num_envs, bool)

    def step() -> int:
        ids, finished = pool.step(next(actions))
        delivered = len(ids) - int(resetting[ids].sum())
        resetting[ids] = finished
        return delivered

    steps, seconds = measure(step, seconds=args.seconds, warmup=args.warmup)
    report(
        pool.packages[0],
        f"random actions, {args.pool}, {args.game}",
        steps=steps,
        seconds=seconds,
        packages=pool.packages,
        settings=vars(args) | {"frame_skip": 4, "stack": 4},
    )


if __name__ == "__main__":
    main()
