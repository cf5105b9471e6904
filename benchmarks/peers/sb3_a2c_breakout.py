"""Stable-Baselines3's A2C on Breakout with RL Zoo's Atari settings: steps per second of `learn()`.

RL Zoo's settings: 16 envs behind AtariWrapper, four frames stacked, horizon 5, RMSpropTFLike with eps
1e-5, learning rate 7e-4 (SB3's default), entropy 0.01, value coefficient 0.25. RL Zoo runs them in one
process (DummyVecEnv); SB3's own advice for slow envs is SubprocVecEnv: `--vector` tries both.
"""

import argparse
import time

import ale_py
import gymnasium
import torch
from measure import report
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack


class Window(BaseCallback):
    """Measures from the first update after `warmup` seconds to the first one `seconds` later, then stops."""

    def __init__(self, seconds: float, warmup: float):
        super().__init__()
        self.seconds, self.warmup = seconds, warmup
        self.begin = self.end = None

    def _on_training_start(self) -> None:
        self.start = time.perf_counter()

    def _on_rollout_start(self) -> None:
        """The previous update is complete here: whole updates are measured."""
        now = time.perf_counter()
        if self.begin is None and now - self.start >= self.warmup:
            self.begin, self.first_step = now, self.num_timesteps
        elif self.begin is not None and now - self.begin >= self.seconds:
            self.end, self.last_step = now, self.num_timesteps

    def _on_step(self) -> bool:
        return self.end is None


def make(game: str) -> gymnasium.Env:
    """One env. It is registered here because a worker process may start without this one's registry."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    return gymnasium.make(f"{game}NoFrameskip-v4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="Breakout", help="name of the game, in CamelCase")
    parser.add_argument("--vector", choices=("subproc", "dummy"), default="subproc")
    parser.add_argument("--start-method", choices=("fork", "forkserver", "spawn"), default="forkserver")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds trained before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(args.torch_threads)
    if args.vector == "subproc":
        vector = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": args.start_method}}
    else:
        vector = {"vec_env_cls": DummyVecEnv}
    envs = make_atari_env(
        make, n_envs=args.num_envs, seed=args.seed, env_kwargs={"game": args.game}, **vector
    )
    envs = VecFrameStack(envs, n_stack=4)
    model = A2C(
        "CnnPolicy",
        envs,
        ent_coef=0.01,
        vf_coef=0.25,
        policy_kwargs={"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 1e-5}},
        seed=args.seed,
        device="cpu",
    )
    window = Window(args.seconds, args.warmup)
    model.learn(total_timesteps=10_000_000, callback=window)
    envs.close()
    report(
        "stable-baselines3",
        f"A2C, {args.vector}, {args.game}",
        steps=window.last_step - window.first_step,
        seconds=window.end - window.begin,
        packages=("stable-baselines3", "ale-py", "torch"),
        settings=vars(args) | {"horizon": 5},
    )


if __name__ == "__main__":
    main()
