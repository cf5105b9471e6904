"""What resets cost, and what spare envs could gain over both values of --resets: prints a Markdown table.

    python benchmarks/resets.py [--envs ALE/Breakout-v5 CartPole-v1 ...] [--steps 4000] [--processes 2] [--each 8]

Steps and resets of one env are timed under random actions (CPU time, so that busy neighbours matter little). With these
times, and with the lengths of these episodes, processes of several envs each are then simulated: a row takes as long as
the slowest process, and every number is valid steps per second, divided by those of envs that never end.

- mid-batch: the env resets in the next row, which is a reset step
- wait: the env is masked until the optimisation pause, in which it resets; nothing is counted for that
- spare, hidden: another env steps in its place in the same row, and resets take time that nobody waits for
- spare, busy: the same, but the process resets its env between two rows, as it does without idle time
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.envs.step_env import make_step_env

ROWS = 6_000


class Times(NamedTuple):
    """Seconds of steps and resets, and steps of episodes, as they were measured."""

    step: np.ndarray
    reset: np.ndarray
    length: np.ndarray


def timed(name: str, steps: int) -> Times:
    env = make_step_env(resolve(name), AtariConfig())
    rng = np.random.default_rng(0)
    rows = [np.zeros((1, *field.shape), field.dtype) for field in env.spec.observation.values()]
    actions = env.spec.action.sample(rng, steps)
    step, reset, length, age = [], [], [], 0
    env.reset(0, rows, 0)
    for done, action in enumerate(actions.tolist() if env.spec.action.kind == "discrete" else actions):
        begin = time.thread_time()
        _, terminated, truncated, _ = env.step(action, rows, 0)
        step.append(time.thread_time() - begin)
        age += 1
        if terminated or truncated:
            length.append(age)
            begin = time.thread_time()
            env.reset(done + 1, rows, 0)
            reset.append(time.thread_time() - begin)
            age = 0
    env.close()
    if not length:
        raise SystemExit(f"no episode of {name} ended in {steps:,} steps: give more --steps")
    return Times(np.array(step), np.array(reset), np.array(length))


def share(times: Times, how: str, processes: int, each: int, horizon: int) -> float:
    """Returns valid steps per second, divided by those of envs that never end."""
    rng = np.random.default_rng(0)
    count = processes * each
    left = np.ceil(rng.choice(times.length, count) * rng.random(count)).astype(int)
    masked, late = np.zeros(count, bool), np.zeros(count)
    seconds = endless = valid = 0.0
    for row in range(ROWS):
        step, ended = rng.choice(times.step, count), left == 0
        reset = np.where(ended, rng.choice(times.reset, count), 0.0)
        endless += slowest(step, processes)
        if how == "wait":
            masked |= ended
            works, cost = ~masked, np.where(masked, 0.0, step)
        elif how == "mid-batch":
            works, cost = ~ended, np.where(ended, reset, step)
        else:
            works, cost = np.ones(count, bool), step + (late if how == "spare, busy" else 0.0)
            late = reset
        left = np.where(ended, rng.choice(times.length, count), left) - works
        if how == "wait" and row % horizon == horizon - 1:
            masked[...] = False
        seconds += slowest(cost, processes)
        valid += works.sum()
    return valid / seconds / (ROWS * count / endless)


def slowest(cost: np.ndarray, processes: int) -> float:
    return float(cost.reshape(processes, -1).sum(1).max())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", default=["ALE/Breakout-v5", "ALE/Pong-v5", "CartPole-v1"])
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--each", type=int, default=8, help="envs of a process")
    parser.add_argument("--horizon", type=int, default=5, help="rows between optimisation pauses")
    asked = parser.parse_args()
    ways = ("mid-batch", "wait", "spare, hidden", "spare, busy")
    print("| env | step, µs | reset, µs | steps of an episode | share of resets |", " | ".join(ways), "|")
    print("| --- " * 9 + "|")
    for name in asked.envs:
        times = timed(name, asked.steps)
        step, reset, length = (float(values.mean()) for values in times)
        cells = [f"{1e6 * step:.1f}", f"{1e6 * reset:.1f}", f"{length:.0f}"]
        cells += [f"{100 * reset / (reset + length * step):.2f}%"]
        cells += [f"{share(times, how, asked.processes, asked.each, asked.horizon):.3f}" for how in ways]
        print("|", " | ".join([name, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
