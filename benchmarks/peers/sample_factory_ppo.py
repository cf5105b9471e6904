"""Sample Factory's PPO on Atari with the settings of its own Atari example, asynchronous, on the CPU.

Its own figures are frames; these are agent steps, and only those that it trained on: the learner's count,
read at each update. An update takes 1,024 steps, and on a CPU some seconds: measure for a minute or more.
"""

import argparse
import contextlib
import sys
import tempfile
import time

import ale_py  # noqa: F401 # registers the games, in every process that starts from this file
from measure import report
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.train import make_runner
from sf_examples.atari.train_atari import parse_atari_args, register_atari_components


class Clock(AlgoObserver):
    """Keeps the time of each update after `warmup` seconds of training, and ends the run `seconds` later."""

    def __init__(self, seconds: float, warmup: float):
        self.seconds, self.warmup = seconds, warmup
        self.marks: list[tuple[int, float]] = []
        self.start: float | None = None

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Called after each update."""
        now = time.perf_counter()
        self.start = self.start or now
        if now - self.start >= self.warmup:
            self.marks.append((runner.env_steps[0], now))
            if now - self.marks[0][1] >= self.seconds:
                # Its own limit on the time, train_for_seconds, is far from exact: the limit on the steps is.
                runner.cfg.train_for_env_steps = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="breakout", help="name of the game in Sample Factory's list")
    parser.add_argument("--workers", type=int, default=2, help="processes that step envs")
    parser.add_argument("--num-envs", type=int, default=16, help="envs, over all workers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=float, default=15.0, help="seconds trained before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    register_atari_components()
    clock = Clock(args.seconds, args.warmup)
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "env": f"atari_{args.game}",
            "device": "cpu",
            "train_dir": folder,
            "experiment": "benchmark",
            "async_rl": True,
            "num_workers": args.workers,
            "num_envs_per_worker": args.num_envs // args.workers,
            "worker_num_splits": 2,
            "summaries_use_frameskip": False,
            "seed": args.seed,
        }
        config = parse_atari_args([f"--{name}={value}" for name, value in options.items()])
        # What it prints must not get between the reader and the one line of JSON.
        with contextlib.redirect_stdout(sys.stderr):
            _, runner = make_runner(config)
            runner.register_observer(clock)
            runner.init()
            runner.run()

    (first_step, begin), (last_step, end) = clock.marks[0], clock.marks[-1]
    report(
        "sample-factory",
        f"PPO, {args.game}",
        steps=last_step - first_step,
        seconds=end - begin,
        packages=("sample-factory", "ale-py", "torch"),
        settings=vars(args),
    )


if __name__ == "__main__":
    main()
