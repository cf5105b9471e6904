"""CleanRL's DQN on Atari, run from its own source file, which is not part of this repository.

The file is patched in memory, only where today's Gymnasium needs it (see PATCHES), and run on the CPU with its own
settings: one env, batch 32, an update every 4 steps (each step is used 8 times), Adam, the target moves every
1,000 steps. The wrappers and the buffer are CleanRL's too: the file must lie in a clone, beside cleanrl_utils.

Learning starts after 1,000 steps and not 80,000, the buffer holds 100,000 steps and not a million, and ε is at its end
when learning starts: what is measured is how nearly all of a run goes, with an inference for each step. A stand-in for
TensorBoard's writer keeps the time of every hundredth step of learning, and ends the run.
"""

import argparse
import contextlib
import sys
import time
import types
from pathlib import Path

import ale_py
import gymnasium
import torch
from measure import report

BUDGET = 10_000_000  # steps that schedules are stretched over
LEARNING_STARTS = 1_000

# Each pair must be found exactly once, so that a changed source is noticed.
PATCHES = [
    ("import tyro\n", ""),
    ("tyro.cli(Args)", "Args(**SETTINGS)"),
    ("gym.wrappers.GrayScaleObservation(", "gym.wrappers.GrayscaleObservation("),
    ("gym.wrappers.FrameStack(", "gym.wrappers.FrameStackObservation("),
    # Without this, the row after a finished game only reports the reset, and would be learned from.
    (
        "for i in range(args.num_envs)]\n    )",
        "for i in range(args.num_envs)],\n        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,\n    )",
    ),
    ('infos["final_observation"]', 'infos["final_obs"]'),
    # It is a dictionary of arrays now, and only printed.
    ('if "final_info" in infos:', "if False:"),
]


class Over(Exception):
    """The clock has run for as long as it was asked to."""


class Clock:
    """Takes the place of TensorBoard's SummaryWriter, and keeps the time of every hundredth step of learning."""

    def __init__(self, seconds: float, warmup: int) -> None:
        self.seconds, self.warmup = seconds, warmup
        self.marks: list[tuple[int, float]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """CleanRL writes its own rate, among others, before the update."""
        if tag == "charts/SPS" and step >= LEARNING_STARTS + self.warmup:
            self.marks.append((step, time.perf_counter()))
            if self.marks[-1][1] - self.marks[0][1] >= self.seconds:
                raise Over

    def add_text(self, tag: str, text: str) -> None:
        """The hyperparameters: not needed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="CleanRL's dqn_atari.py, in a clone")
    parser.add_argument("--game", default="Breakout", help="name of the game, in CamelCase")
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=int, default=400, help="steps learned before the clock starts")
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
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    clock = Clock(args.seconds, args.warmup)
    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=lambda log_dir: clock)
    sys.path.insert(0, str(args.source.resolve().parents[1]))  # where cleanrl_utils is
    dqn = {
        "env_id": f"{args.game}NoFrameskip-v4",
        "total_timesteps": BUDGET,
        "buffer_size": 100_000,
        "learning_starts": LEARNING_STARTS,
        "exploration_fraction": LEARNING_STARTS / BUDGET,
        "batch_size": 32,
        "train_frequency": 4,
        "seed": args.seed,
        "cuda": False,
    }
    names = {"__name__": "__main__", "__file__": str(args.source), "SETTINGS": dqn}
    # What CleanRL prints must not get between the reader and the one line of JSON.
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Over):
        exec(compile(source, args.source, "exec"), names)

    (first_step, begin), (last_step, end) = clock.marks[0], clock.marks[-1]
    report(
        "cleanrl",
        f"DQN, {args.game}",
        steps=last_step - first_step,
        seconds=end - begin,
        packages=("ale-py", "gymnasium", "torch"),
        settings=vars(args) | {"source": args.source.name, **dqn},
    )


if __name__ == "__main__":
    main()
