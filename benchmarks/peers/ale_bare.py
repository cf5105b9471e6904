"""The machine's limit: one core, one emulator, a bare Python loop, nothing done with the frames.

A step is what every Atari pipeline must do at least: four emulator frames, and the screens of the last two of
them, for the maximum that removes the flicker. No pool can step faster per core than this.
"""

import argparse
import itertools

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from measure import measure, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="breakout", help="name of the ROM, in snake_case")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds stepped before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", args.seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(args.game))

    legal = ale.getMinimalActionSet()
    choices = np.random.default_rng(args.seed).integers(len(legal), size=8192)
    actions = itertools.cycle([legal[choice] for choice in choices])
    before_last, last = np.empty((2, *ale.getScreenDims()), np.uint8)

    def step() -> int:
        action = next(actions)
        ale.act(action)
        ale.act(action)
        ale.act(action)
        ale.getScreenGrayscale(before_last)
        ale.act(action)
        ale.getScreenGrayscale(last)
        if ale.game_over():
            ale.reset_game()
        return 1

    steps, seconds = measure(step, seconds=args.seconds, warmup=args.warmup)
    report(
        "ale-py",
        f"bare emulator loop, one core, {args.game}",
        steps=steps,
        seconds=seconds,
        packages=("ale-py",),
        settings={"frame_skip": 4, "screens_per_step": 2, "seed": args.seed},
    )


if __name__ == "__main__":
    main()
