"""Checks and times the recipes on one GPU, in at most nine minutes: prints Markdown tables.

    python benchmarks/gpu.py                # needs a CUDA GPU
    python benchmarks/gpu.py --device cpu   # tries the script itself, in a minute: CartPole-v1 in the place of Breakout

Checks: the first updates of each synchronous recipe leave the weights close to those of the CPU, and no update waits
for the GPU. Figures of these: agent steps per second (SPS) of training, of sampling, of the envs without inference and
of learning alone, and updates per second with minibatches of 512; of PPO and DQN also with --compile and with
--cuda-graphs, as far as time is left. Figures of the recipes of the other systems: SPS and updates per second of a run,
from its first updates on; GA3C's also with DQN's network, and on the CPU. Exit code 0, 1 if a check failed, 2 without a
GPU.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import torch

import veldt
from veldt.cli.verbs.bench import training
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.learning.learner import Learner
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoints import CheckpointStore
from veldt.runtime.devices import accelerator_name, choose_device
from veldt.setting_text import flag
from veldt.systems.planning.run_plan import make_run_plan

LIMIT_S = 8 * 60  # no measurement begins after it
CLOSE = 1e-3  # largest difference from the CPU's weights, as a fraction of their norm
SMALL: dict[str, Any] = {"num_envs": 4, "hidden": (64,), "threads": 1, "precision": "fp32"}
ROLLOUT = SMALL | {"horizon": 5, "steps": 40}
REPLAYED = SMALL | {
    "batch_size": 16,
    "training_intensity": 2.0,
    "horizon": 4,
    "learning_starts": 40,
    "steps": 64,
}
CHECKED: dict[str, dict[str, Any]] = {
    "a2c": ROLLOUT,
    "ppo": SMALL | {"batch_size": 64, "minibatches": 2, "epochs": 1, "steps": 64},
    "dqn": REPLAYED,
    "c51": REPLAYED,
    "rainbow": REPLAYED,
    "ddpg": REPLAYED,
}
# By recipe, settings with which a minibatch has 512 rows, and updates for each step of the envs.
TIMED: dict[str, tuple[dict[str, Any], float]] = {
    "a2c": ({"num_envs": 64, "horizon": 8}, 1 / 512),
    "ppo": ({"num_envs": 64, "batch_size": 2048, "epochs": 4, "minibatches": 4}, 16 / 2048),
    "dqn": ({"num_envs": 64, "batch_size": 512, "training_intensity": 8.0}, 8 / 512),
    "rainbow": ({"num_envs": 64, "batch_size": 512, "training_intensity": 8.0}, 8 / 512),
}

# SPS of these are columns of the table.
COLUMNS = ("training", "sampling", "simulate, network-ready, no inference", "learning alone")

# Switches with which some are timed again, after all others, since compiling takes time.
SWITCHES = [(recipe, switch) for recipe in ("ppo", "dqn") for switch in ("compile", "cuda_graphs")]

# By title, a recipe of another system, and settings with which it is timed.
DQN_SETTINGS = ["--batch-size", "512", "--learning-starts", "5000", "--buffer-size", "50000"]
SYSTEMS: dict[str, tuple[str, list[str]]] = {
    "a3c, 1 learner": ("a3c", ["--learners", "1", "--num-envs", "64"]),
    "appo, 1 learner": ("appo", ["--learners", "1", "--num-envs", "64"]),
    "async-dqn, 1 learner": ("async-dqn", ["--learners", "1", "--num-envs", "64", *DQN_SETTINGS]),
    "impala, 8 actors": ("impala", ["--actors", "8", "--num-envs", "64"]),
    "apex-dqn, 8 actors": ("apex-dqn", ["--actors", "8", "--num-envs", "64", *DQN_SETTINGS]),
    "gorila, 1 learner, 8 actors": (
        "gorila",
        ["--learners", "1", "--actors", "8", "--num-envs", "64", *DQN_SETTINGS],
    ),
    "ga3c": ("ga3c", ["--num-envs", "64"]),
    "ga3c on the CPU": ("ga3c", ["--num-envs", "64", "--device", "cpu"]),
    "ga3c, DQN's network": ("ga3c", ["--num-envs", "64", "--network", "dqn"]),
    "ga3c, DQN's network, on the CPU": (
        "ga3c",
        ["--num-envs", "64", "--network", "dqn", "--device", "cpu"],
    ),
}
START_S = 60.0  # a run that has made no update until then is not measured
RUN_SECONDS = 2  # times as long as another measurement, since metrics come every half second
NETWORK, DEVICE = "--network", "--device"  # a network is of Atari games only


class BoundedActions(gymnasium.Env[np.ndarray, np.ndarray]):
    """A point on a line, for DDPG: closer to 0 is better."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self._place = np.random.default_rng(seed).uniform(-1.0, 1.0, 2).astype(np.float32)
        self._left = 20
        return self._place, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._place = np.clip(self._place + 0.1 * action, -1.0, 1.0).astype(np.float32)
        self._left -= 1
        return self._place, -float(abs(self._place[0])), False, self._left == 0, {}


@contextmanager
def watched_updates() -> Iterator[list[str]]:
    """Yields a list that has, for each update in the block, the first warning that it waited for the GPU, or ''."""
    updates: list[str] = []
    update = Learner.update

    def watched(self: Learner, *args: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if torch.cuda.is_available():
                torch.cuda.set_sync_debug_mode("warn")
            try:
                return update(self, *args)
            finally:
                if torch.cuda.is_available():
                    torch.cuda.set_sync_debug_mode("default")
                # (Switching this on warns, too.)
                texts = [str(each.message) for each in caught if "prototype" not in str(each.message)]
                waits = [text for text in texts if "synchroniz" in text]
                updates.append(waits[0] if waits else "")

    with mock.patch.object(Learner, "update", watched):
        yield updates


def weights_after(recipe: str, device: str, run: Path) -> dict[str, np.ndarray]:
    """Trains with the settings of `CHECKED` and returns the weights."""
    env: Any = BoundedActions if recipe == "ddpg" else "CartPole-v1"
    placed = {"env_backend": "in-process", "alternate": "off", "device": device}
    veldt.train(recipe, env=env, run_dir=run, quiet=True, seed=3, **CHECKED[recipe], **placed)
    checkpoint = CheckpointStore(run / "checkpoints").newest(lambda text: None)
    return {name: np.asarray(array) for name, array in checkpoint.groups["weights"].items()}


def check(recipe: str, device: str) -> tuple[str, bool]:
    """Returns the row of the table, and whether all is well."""
    with tempfile.TemporaryDirectory() as folder:
        here = weights_after(recipe, "cpu", Path(folder) / "cpu")
        with watched_updates() as updates:
            there = weights_after(recipe, device, Path(folder) / "device")
    square, difference = (
        sum(float(np.square(part).sum()) for part in parts)
        for parts in (here.values(), (array - there[name] for name, array in here.items()))
    )
    apart = (difference / square) ** 0.5
    waits = [text for text in updates if text]
    is_well = len(updates) >= 2 and apart <= CLOSE and not waits
    why = f" ({waits[0]})" if waits else ""
    verdict = "ok" if is_well else "FAILED"
    return f"| {recipe} | {len(updates)} | {apart:.1e} | {len(waits)}{why} | {verdict} |", is_well


def timed(recipe: str, device: str, env: str, seconds: float, switch: str) -> str:
    """Returns the columns of the table after the first; `switch` is a setting that is on, or empty."""
    settings, updates_per_step = TIMED[recipe]
    on = {switch: True} if switch else {}
    config = with_settings(find(recipe).config(env), settings | {"device": device} | on)
    run_plan = make_run_plan(RunRequest(config, resolve(env)))
    sps = {row.what: row.sps for row in training(run_plan, seconds)}
    updates = sps["learning alone"] * updates_per_step
    figures = " | ".join(f"{sps[what]:,.0f}" for what in COLUMNS)
    return f"{run_plan.config.run.precision} | {figures} | {updates:,.1f} |"


def timed_run(recipe: str, arguments: list[str], seconds: float) -> str:
    """Trains until `seconds` have passed since the first updates; returns SPS and updates per second of that time."""
    with tempfile.TemporaryDirectory() as folder:
        run, log = Path(folder) / "run", Path(folder) / "log"
        command = [sys.executable, "-m", "veldt", "train", recipe, *arguments, "--log-every", "0.5"]
        command += ["--steps", "1_000_000_000", "--evaluate-every", "0", "--run-dir", str(run)]
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            rows = rows_of_updates(run / "metrics.jsonl", process, seconds)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        if len(rows) < 2:
            last = (log.read_text().strip().splitlines() or ["no output"])[-1]
            return f"not measured: {last} | |"
    first, last = rows[0], rows[-1]
    sps, updates = (
        (last[name] - first[name]) / (last["seconds"] - first["seconds"])
        for name in ("step", "train/updates")
    )
    return f"{sps:,.0f} | {updates:,.1f} |"


def rows_of_updates(metrics: Path, process: subprocess.Popen[bytes], seconds: float) -> list[dict[str, Any]]:
    """Waits and returns the rows of metrics of `seconds`, from the first on that has updates before it."""
    rows, until = list[dict[str, Any]](), time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
        lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
        before, rows = rows, [row for row in map(json.loads, lines) if row.get("train/updates", 0) > 0]
        if rows and not before:
            until = time.monotonic() + 2 * seconds
        if rows and rows[-1]["seconds"] - rows[0]["seconds"] >= seconds:
            break
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu to try the script")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement on a GPU")
    asked = parser.parse_args()
    if asked.device != "cpu" and not torch.cuda.is_available():
        print("A CUDA GPU is needed, and torch finds none: --device cpu tries the script without one.")
        return 2
    device = choose_device(asked.device)
    is_trial = device.type == "cpu"
    env, seconds = ("CartPole-v1", 0.02) if is_trial else ("ALE/Breakout-v5", asked.seconds)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # for the comparison only
    began, all_well = time.monotonic(), True
    name = "the CPU: a trial of the script, no result" if is_trial else accelerator_name(device)
    print(f"On {name}, torch {torch.__version__}.\n")
    print(
        "| recipe | updates | difference from the CPU / norm | updates that wait | |\n" + "| --- " * 5 + "|"
    )
    for recipe in CHECKED:
        row, is_well = check(recipe, asked.device)
        all_well &= is_well
        print(row, flush=True)
    torch.backends.cudnn.allow_tf32 = True  # torch's default
    print(
        "\n| training | precision | SPS | sampling | envs alone | learning alone | updates/s, 512 rows |\n"
        + "| --- " * 7
        + "|"
    )
    switches = [] if is_trial else SWITCHES  # the CPU has no CUDA graphs
    for recipe, switch in [*((recipe, "") for recipe in TIMED), *switches]:
        name = f"{recipe}, {env}, {flag(switch)}" if switch else f"{recipe}, {env}"
        if time.monotonic() - began > LIMIT_S - 6 * seconds:
            print(f"| {name} | not measured: out of time | | | | | |")
            continue
        print(f"| {name} | {timed(recipe, asked.device, env, seconds, switch)}", flush=True)
    print("\n| training, other systems | SPS | updates/s |\n" + "| --- " * 3 + "|")
    for title, (recipe, arguments) in SYSTEMS.items():
        if is_trial and NETWORK in arguments:
            continue
        if time.monotonic() - began > LIMIT_S - 2 * RUN_SECONDS * seconds:
            print(f"| {title}, {env} | not measured: out of time | |")
            continue
        device_flag = [] if DEVICE in arguments else [DEVICE, asked.device]
        figures = timed_run(recipe, ["--env", env, *device_flag, *arguments], RUN_SECONDS * seconds)
        print(f"| {title}, {env} | {figures}", flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
