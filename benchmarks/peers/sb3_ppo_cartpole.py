"""Stable-Baselines3's PPO on CartPole-v1 with RL Zoo's settings: seconds from nothing to solved.

Solved is a mean return of at least 475 over the last 100 finished games of training. `solved_after` is the
seconds from the start of the process, imports included; `sps` and `seconds` are of `learn()` alone. The
learning rate and the clip range fall to zero at `--budget` steps, RL Zoo's 100,000, and the run ends there:
nothing can be learned after it, so `solved_after` is then null.
"""

import argparse
import time
from collections import deque

import torch
from measure import process_age, report
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Solved(BaseCallback):
    """Stops once the mean return of the last `games` finished games reaches `goal`, and keeps the time."""

    def __init__(self, goal: float, games: int):
        super().__init__()
        self.goal = goal
        self.returns: deque[float] = deque(maxlen=games)
        self.seconds: float | None = None

    def _on_step(self) -> bool:
        finished = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self.returns.extend(finished)
        full = len(self.returns) == self.returns.maxlen
        if finished and full and sum(self.returns) / len(self.returns) >= self.goal:
            self.seconds = process_age()
        return self.seconds is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=100_000, help="steps at which the schedules end")
    parser.add_argument("--torch-threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.torch_threads)
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=args.seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=lambda remaining: remaining * 1e-3,
        clip_range=lambda remaining: remaining * 0.2,
        seed=args.seed,
        device="cpu",
    )
    solved = Solved(goal=475.0, games=100)
    begin = time.perf_counter()
    model.learn(total_timesteps=args.budget, callback=solved)
    learning = time.perf_counter() - begin
    report(
        "stable-baselines3",
        "PPO, CartPole-v1 to 475",
        steps=model.num_timesteps,
        seconds=learning,
        packages=("stable-baselines3", "gymnasium", "torch"),
        settings=vars(args) | {"num_envs": 8},
        solved_after=solved.seconds and round(solved.seconds, 3),
    )


if __name__ == "__main__":
    main()
