"""CleanRL's PPO on EnvPool's Atari, run from its own source file, which is not part of this repository.

The file is patched in memory, only where today's EnvPool and Gymnasium need it (see PATCHES), and run on the
CPU with its own settings. A stand-in for TensorBoard's writer notes the time of each update, so that the rate
leaves out the first updates, as everywhere here. Steps are counted as CleanRL counts them: with the rows that
only report a reset.
"""

import argparse
import contextlib
import sys
import time
import types
from pathlib import Path

import torch
from measure import report

# Each pair must be found exactly once, so that a changed source is noticed.
PATCHES = [
    ("import gym\n", "import gymnasium as gym\n"),
    ("import tyro\n", ""),
    ("tyro.cli(Args)", "Args(**SETTINGS)"),
    ('env_type="gym"', 'env_type="gymnasium", num_threads=THREADS'),
    # EnvPool is a Gymnasium vector now: it has these attributes, and they cannot be set.
    ("    envs.num_envs = args.num_envs\n", ""),
    ("    envs.single_action_space = envs.action_space\n", ""),
    ("    envs.single_observation_space = envs.observation_space\n", ""),
    ("(gym.Wrapper)", "(gym.vector.VectorWrapper)"),
    ('        self.num_envs = getattr(env, "num_envs", 1)\n', ""),
    # Gymnasium's `reset` returns two values, and its `step` five.
    ("observations = super().reset(", "observations, _ = super().reset("),
    (
        "observations, rewards, dones, infos = super()",
        "observations, rewards, terminated, truncated, infos = super()",
    ),
    (
        "        self.episode_returns += ",
        "        dones = terminated | truncated\n        self.episode_returns += ",
    ),
]


class Clock:
    """Takes the place of TensorBoard's SummaryWriter, and keeps the time of each update."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, float]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """CleanRL writes its own rate last thing in an update."""
        if tag == "charts/SPS":
            self.marks.append((step, time.perf_counter()))

    def add_text(self, tag: str, text: str) -> None:
        """The hyperparameters: not needed."""

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="CleanRL's ppo_atari_envpool.py")
    parser.add_argument("--game", default="Breakout", help="name of the game, in CamelCase")
    parser.add_argument("--steps", type=int, default=51_200, help="steps trained, warm-up included")
    parser.add_argument("--warmup-updates", type=int, default=2, help="updates before the clock starts")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2, help="threads of EnvPool")
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    source = args.source.read_text()
    for old, new in PATCHES:
        if source.count(old) != 1:
            parser.error(
                f"{args.source} is not the file that was patched here: it must hold {old!r} exactly once"
            )
        source = source.replace(old, new)

    torch.set_num_threads(args.torch_threads)
    clock = Clock()
    tensorboard = types.SimpleNamespace(SummaryWriter=lambda log_dir: clock)
    sys.modules["torch.utils.tensorboard"] = tensorboard
    ppo = {
        "env_id": f"{args.game}-v5",
        "total_timesteps": args.steps,
        "num_envs": args.num_envs,
        "num_steps": 128,
        "update_epochs": 4,
        "num_minibatches": 4,
        "seed": args.seed,
        "cuda": False,
    }
    names = {"__name__": "__main__", "__file__": str(args.source), "SETTINGS": ppo, "THREADS": args.threads}
    # What CleanRL prints must not get between the reader and the one line of JSON.
    with contextlib.redirect_stdout(sys.stderr):
        exec(compile(source, args.source, "exec"), names)

    (first_step, begin), (last_step, end) = clock.marks[args.warmup_updates - 1], clock.marks[-1]
    report(
        "cleanrl",
        f"PPO, {args.game}",
        steps=last_step - first_step,
        seconds=end - begin,
        packages=("envpool", "gymnasium", "torch"),
        settings=vars(args) | {"source": args.source.name, **ppo},
    )


if __name__ == "__main__":
    main()
