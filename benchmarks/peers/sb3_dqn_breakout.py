"""Stable-Baselines3's DQN on Breakout with RL Zoo's Atari settings: steps per second of `learn()` once it learns.

RL Zoo's settings: AtariWrapper, four frames stacked, NatureCNN, batch 32, an update every 4 steps (each step is used
8 times), Adam with learning rate 1e-4, the target moves every 1,000 steps, a buffer of 100,000, ε 0.01 at its end. RL
Zoo has one env. With `--num-envs N` it is 4 steps of each and then N updates: inference is in batches, and the
intensity the same. `--vector` puts envs in this process or in processes of their own.

Learning starts after 1,000 steps and not 100,000, and ε is at its end by then: what is measured is how nearly all of a
run goes, with an inference for each step.
"""

import argparse
import time

import ale_py
import gymnasium
import torch
from measure import report
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

BUDGET = 10_000_000  # steps that schedules are stretched over
LEARNING_STARTS = 1_000


class Window(BaseCallback):
    """Measures from the end of `warmup` updates to the first update `seconds` later, then stops."""

    def __init__(self, seconds: float, warmup: int):
        super().__init__()
        self.seconds, self.warmup = seconds, warmup
        self.begin = self.end = None

    def _on_rollout_start(self) -> None:
        """The previous update is complete here: whole updates are measured."""
        now = time.perf_counter()
        if self.begin is None and self.model._n_updates >= self.warmup:
            self.begin, self.first_step, self.first_update = now, self.num_timesteps, self.model._n_updates
        elif self.begin is not None and now - self.begin >= self.seconds:
            self.end, self.last_step, self.last_update = now, self.num_timesteps, self.model._n_updates

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
    parser.add_argument("--vector", choices=("subproc", "dummy"), default="dummy")
    parser.add_argument("--start-method", choices=("fork", "forkserver", "spawn"), default="forkserver")
    parser.add_argument("--num-envs", type=int, default=1, help="and as many updates every 4 steps of each")
    parser.add_argument(
        "--optimise-memory", action="store_true", help="SB3's optimize_memory_usage: each observation once"
    )
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=int, default=100, help="updates before the clock starts")
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
    model = DQN(
        "CnnPolicy",
        envs,
        learning_rate=1e-4,
        buffer_size=100_000,
        learning_starts=LEARNING_STARTS,
        batch_size=32,
        train_freq=4,
        gradient_steps=args.num_envs,
        target_update_interval=1_000,
        exploration_fraction=LEARNING_STARTS / BUDGET,
        exploration_final_eps=0.01,
        optimize_memory_usage=args.optimise_memory,
        # SB3 has either this or that.
        replay_buffer_kwargs={"handle_timeout_termination": not args.optimise_memory},
        seed=args.seed,
        device="cpu",
    )
    window = Window(args.seconds, args.warmup)
    model.learn(total_timesteps=BUDGET, callback=window)
    envs.close()
    steps, updates = window.last_step - window.first_step, window.last_update - window.first_update
    report(
        "stable-baselines3",
        f"DQN, {args.num_envs} in {args.vector}, {args.game}",
        steps=steps,
        seconds=window.end - window.begin,
        packages=("stable-baselines3", "ale-py", "torch"),
        settings=vars(args) | {"batch": 32, "learning_starts": LEARNING_STARTS},
        training_intensity=round(updates * 32 / steps, 3),
    )


if __name__ == "__main__":
    main()
