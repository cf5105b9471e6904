"""`veldt bench`: speed beside the machine's own limit, measured in the same run.

All results are agent steps per second (SPS); reset steps do not count.
"""

from __future__ import annotations

import dataclasses
import json as json_format
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from veldt import api
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.run_request import RunRequest
from veldt.envs.arrangement import time_step
from veldt.envs.env import StepperSettings
from veldt.envs.in_process import VectorEnvs
from veldt.envs.source import EnvSource, resolve
from veldt.errors import UsageError
from veldt.networks.recurrent import RecurrentState, recurrent_size_of
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.cores import allowed_cores
from veldt.runtime.system_memory import disable_malloc_trim
from veldt.sampling.observations import blank_observation, slot_observations
from veldt.sampling.sampler import Sampler
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.tracking.console import output_console
from veldt.tracking.metrics import read_metrics
from veldt.tracking.stage_clock import StageClock

_ROWS = 32  # steps of a rollout when only sampling is measured


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement: `of_limit` compares it with `limit`, both in SPS."""

    what: str
    sps: float
    limit: str = ""
    of_limit: float | None = None


def report(
    what: str,
    recipe: str,
    env: str,
    num_envs: int,
    processes: int,
    alternate: str,
    seconds: float,
    json: bool,
) -> None:
    """Measures, and prints a table or one JSON object. `seconds` is the duration of each measurement."""
    if seconds <= 0:
        raise UsageError(f"--seconds is {seconds:g}: it must be more than 0")
    config = find(recipe).config(env)
    if not config.in_one_process:
        raise UsageError(
            f"--recipe is {recipe}, which is several processes: bench takes a synchronous recipe (a2c, "
            "ppo, dqn, c51, rainbow, ddpg); a run's own metrics say where the time of roles goes"
        )
    settings: dict[str, Any] = {"alternate": alternate} | ({"processes": processes} if processes else {})
    if num_envs:
        settings["num_envs"] = num_envs
    source = resolve(env)
    run_plan = make_run_plan(RunRequest(with_settings(config, settings), source))
    rows = sampling(run_plan, seconds) if what == "sampling" else training(run_plan, seconds)
    if json:
        metrics = {row.what: {"sps": row.sps, "of_limit": row.of_limit, "limit": row.limit} for row in rows}
        plan = {"decisions": run_plan.decisions, "cores": len(allowed_cores()), "env": env, "recipe": recipe}
        print(json_format.dumps({"bench": what, **plan, "metrics": metrics}))
        return
    console = output_console()
    for decision in run_plan.decisions:
        console.print(decision, style="dim", highlight=False)
    table = Table("what", "SPS", "of its limit", "", box=None)
    for row in rows:
        share = "" if row.of_limit is None else f"{row.of_limit:.2f}"
        table.add_row(row.what, f"{row.sps:,.0f}", share, row.limit)
    console.print(table)


def sampling(run_plan: RunPlan, seconds: float) -> list[Row]:
    """Measures the env alone, stepping without inference, inference without stepping, and both together."""
    cores = len(allowed_cores())
    bare = _bare_limit(run_plan.source, run_plan, seconds)
    simulate = _simulate_only(run_plan, seconds)
    infer = _infer_only(run_plan, seconds)
    both = sampling_speed(run_plan, seconds)
    harmonic = 1.0 / (1.0 / simulate + 1.0 / infer)
    return [
        Row("env alone, one core", bare),
        Row(
            "simulate, network-ready, no inference",
            simulate,
            f"{cores} x one core",
            simulate / (cores * bare),
        ),
        Row("inference alone", infer),
        Row("sampling", both, "1 / (1/simulate + 1/infer)", both / harmonic),
    ]


def training(run_plan: RunPlan, seconds: float) -> list[Row]:
    """Measures training from its first update on, sampling alone, and learning alone."""
    simulate = _simulate_only(run_plan, seconds)
    both = sampling_speed(run_plan, seconds)
    run_plan = _learning_soon(run_plan)
    learn = run_plan.config.learn
    warm_up = learn.learning_starts if isinstance(learn, OffPolicyConfig) else 0
    phase = run_plan.horizon * run_plan.config.envs.num_envs
    # A run is limited by steps, not seconds: a short run measures how many steps take `seconds`.
    sps, _ = _train(run_plan, warm_up + max(3 * phase, 1000))
    sps, learning = _train(run_plan, warm_up + max(3 * phase, int(sps * seconds)))
    return [
        Row("simulate, network-ready, no inference", simulate),
        Row("sampling", both),
        Row("learning alone", learning),
        Row("training", sps, "1 / (1/sampling + 1/learning)", sps * (1.0 / both + 1.0 / learning)),
    ]


def _learning_soon(run_plan: RunPlan) -> RunPlan:
    """Returns the run plan with learning from replay starting as soon as the buffer holds a few batches."""
    learn = run_plan.config.learn
    if isinstance(learn, OffPolicyConfig):
        learn = dataclasses.replace(learn, learning_starts=min(4 * learn.batch_size, learn.learning_starts))
    run = dataclasses.replace(run_plan.config.run, log_every=0.0, evaluate_every=0, checkpoint_replay="none")
    return dataclasses.replace(run_plan, config=dataclasses.replace(run_plan.config, learn=learn, run=run))


def _train(run_plan: RunPlan, steps: int) -> tuple[float, float]:
    """Trains, and returns SPS since the first phase with an update: of the run, and of learning alone."""
    config = dataclasses.replace(run_plan.config, run=dataclasses.replace(run_plan.config.run, steps=steps))
    with tempfile.TemporaryDirectory() as scratch:
        run = api.train_config(config, run_plan.source, run_dir=Path(scratch) / "run", quiet=True)
        rows = [row for row in read_metrics(run.path) if row["train/updates"]]
    done = rows[-1]["step"] - rows[0]["step"]
    learning = sum(row["time/train_seconds"] + row["time/replay_seconds"] for row in rows[1:])
    return done / max(rows[-1]["seconds"] - rows[0]["seconds"], 1e-9), done / max(learning, 1e-9)


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Returns the steps per second of `work`, which returns its number of steps; the first call is a warm-up."""
    work()
    steps, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        steps += work()
    return steps / elapsed


def _bare_limit(source: EnvSource, run_plan: RunPlan, seconds: float) -> float:
    """Returns the steps per second of one bare env on one core."""
    if not source.is_atari:
        return 1.0 / min(
            time_step(source, run_plan.config.atari, run_plan.config.envs.env_timeout) for _ in range(3)
        )
    from ale_py import ALEInterface

    from veldt.envs.atari import rom_path

    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom_path(source.name))
    actions = ale.getMinimalActionSet()
    screens = [np.empty(ale.getScreenDims(), np.uint8) for _ in range(2)]
    rng = np.random.default_rng(0)

    def work() -> int:
        for index in rng.integers(0, len(actions), 100).tolist():
            for _ in range(3):
                ale.act(actions[index])
            ale.getScreenGrayscale(screens[0])
            ale.act(actions[index])
            ale.getScreenGrayscale(screens[1])
            if ale.game_over():
                ale.reset_game()
        return 100

    return _rate(work, seconds)


def _envs(run_plan: RunPlan) -> VectorEnvs:
    config = run_plan.config
    settings = StepperSettings(run_plan.source, config.run.seed, config.envs, config.atari)
    return run_plan.envs(settings, _ROWS)


def _simulate_only(run_plan: RunPlan, seconds: float) -> float:
    """Steps with random actions, and assembles every row as input for the network."""
    envs = _envs(run_plan)
    try:
        envs.start()
        slot, groups = envs.trajectory, range(len(envs.groups))
        observations = slot_observations(slot, run_plan.device)
        rng = np.random.default_rng(0)

        def work() -> int:
            actions = run_plan.spec.action.sample(rng, _ROWS * slot.width)
            slot.action[:] = actions.reshape(slot.action.shape)
            for group in groups:
                observations.row(0, envs.groups[group])
                envs.step(group, 0)
            for t in range(_ROWS):
                for group in groups:
                    envs.wait(group, t)
                    if t + 1 < _ROWS:
                        observations.row(t + 1, envs.groups[group])
                        envs.step(group, t + 1)
            steps = int(slot.valid.sum())
            envs.start_next_rollout()
            return steps

        return _rate(work, seconds)
    finally:
        envs.close()


def _infer_only(run_plan: RunPlan, seconds: float) -> float:
    """Computes actions for batches of one group, with one thread or one for each core, whichever is faster."""
    network, _ = run_plan.network()
    algorithm = run_plan.algorithm()
    width = run_plan.config.envs.num_envs // run_plan.arrangement.groups
    observation = blank_observation(run_plan.spec, width, run_plan.device)
    noise = algorithm.prepare_noise(torch.full((width, algorithm.action_noise(network)), 0.5), None).to(
        run_plan.device
    )

    recurrent_state = RecurrentState(network, recurrent_size_of(network), width, run_plan.device)
    forward = recurrent_state.at(slice(0, width), np.ones(width))

    @torch.no_grad()
    def work() -> int:
        for _ in range(20):
            algorithm.act(forward, observation, noise)[0].cpu()
        return 20 * width

    rates = []
    for threads in {1, len(allowed_cores())} if run_plan.device.type == "cpu" else {torch.get_num_threads()}:
        torch.set_num_threads(threads)
        rates.append(_rate(work, seconds))
    return max(rates)


def sampling_speed(run_plan: RunPlan, seconds: float) -> float:
    """Returns the steps per second of sampling as training does it."""
    disable_malloc_trim()
    network, _ = run_plan.network()
    envs = _envs(run_plan)
    try:
        envs.start()
        sampler = Sampler(
            envs,
            run_plan.algorithm(),
            network,
            run_plan.device,
            run_plan.config.run.seed,
            StageClock(),
            noise=run_plan.algorithm().action_noise(network),
            recurrent_size=recurrent_size_of(network),
            threads=run_plan.inference_threads,
            cores=run_plan.inference_cores,
        )

        def work() -> int:
            sampler.sample(0)
            steps = int(envs.trajectory.valid.sum())
            sampler.start_next_rollout()
            return steps

        return _rate(work, seconds)
    finally:
        envs.close()
