"""`veldt bench`: speed beside the machine's own limit, measured in the same run.

All figures are agent steps per second (SPS), counted only where a step was really made.
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
    what: str, recipe: str, env: str, num_simulators: int, processes: int, seconds: float, json: bool
) -> None:
    """Measures and prints a table, or one JSON object. `seconds` are those of each measurement."""
    if seconds <= 0:
        raise UsageError(f"--seconds is {seconds:g}: it must be more than 0")
    config = find(recipe).config(env)
    if not config.in_one_process:
        raise UsageError(
            f"--recipe is {recipe}, which is several processes: bench takes a synchronous recipe (a2c, "
            "ppo, dqn, c51, rainbow, ddpg); a run's own metrics say where the time of roles goes"
        )
    settings: dict[str, Any] = {"processes": processes} if processes else {}
    if num_simulators:
        settings["num_simulators"] = num_simulators
    source = resolve(env)
    assembly = make_run_plan(with_settings(config, settings), source)
    rows = sampling(assembly, seconds) if what == "sampling" else training(assembly, seconds)
    if json:
        figures = {row.what: {"sps": row.sps, "of_limit": row.of_limit, "limit": row.limit} for row in rows}
        plan = {"decisions": assembly.decisions, "cores": len(allowed_cores()), "env": env, "recipe": recipe}
        print(json_format.dumps({"bench": what, **plan, "figures": figures}))
        return
    console = output_console()
    for decision in assembly.decisions:
        console.print(decision, style="dim", highlight=False)
    table = Table("what", "SPS", "of its limit", "", box=None)
    for row in rows:
        share = "" if row.of_limit is None else f"{row.of_limit:.2f}"
        table.add_row(row.what, f"{row.sps:,.0f}", share, row.limit)
    console.print(table)


def sampling(assembly: RunPlan, seconds: float) -> list[Row]:
    """The emulator alone, simulation without inference, inference without simulation, and both together."""
    cores = len(allowed_cores())
    bare = _bare_limit(assembly.source, assembly, seconds)
    simulate = _simulate_only(assembly, seconds)
    infer = _infer_only(assembly, seconds)
    both = _both(assembly, seconds)
    harmonic = 1.0 / (1.0 / simulate + 1.0 / infer)
    return [
        Row("simulator alone, one core", bare),
        Row(
            "simulate, network-ready, no inference",
            simulate,
            f"{cores} x one core",
            simulate / (cores * bare),
        ),
        Row("inference alone", infer),
        Row("sampling", both, "1 / (1/simulate + 1/infer)", both / harmonic),
    ]


def training(assembly: RunPlan, seconds: float) -> list[Row]:
    """Training, from its first update on, beside sampling alone and learning alone."""
    simulate = _simulate_only(assembly, seconds)
    both = _both(assembly, seconds)
    assembly = _learning_soon(assembly)
    learn = assembly.config.learn
    warm_up = learn.learning_starts if isinstance(learn, OffPolicyConfig) else 0
    phase = assembly.horizon * assembly.config.simulation.num_simulators
    # The run has no clock of its own, so a short one says how many steps the wanted seconds are.
    sps, _ = _train(assembly, warm_up + max(3 * phase, 1000))
    sps, learning = _train(assembly, warm_up + max(3 * phase, int(sps * seconds)))
    return [
        Row("simulate, network-ready, no inference", simulate),
        Row("sampling", both),
        Row("learning alone", learning),
        Row("training", sps, "1 / (1/sampling + 1/learning)", sps * (1.0 / both + 1.0 / learning)),
    ]


def _learning_soon(assembly: RunPlan) -> RunPlan:
    """The same, learning from a replay memory as soon as a few batches are in it."""
    learn = assembly.config.learn
    if isinstance(learn, OffPolicyConfig):
        learn = dataclasses.replace(learn, learning_starts=min(4 * learn.batch, learn.learning_starts))
    run = dataclasses.replace(assembly.config.run, log_every=0.0, evaluate_every=0, checkpoint_replay="none")
    return dataclasses.replace(assembly, config=dataclasses.replace(assembly.config, learn=learn, run=run))


def _train(assembly: RunPlan, steps: int) -> tuple[float, float]:
    """Trains, and returns SPS since the first phase with an update, and the same of learning alone."""
    config = dataclasses.replace(assembly.config, run=dataclasses.replace(assembly.config.run, steps=steps))
    with tempfile.TemporaryDirectory() as scratch:
        run = api.train_config(config, assembly.source, run_dir=Path(scratch) / "run", quiet=True)
        rows = [row for row in read_metrics(run.path) if row["updates"]]
    done = rows[-1]["step"] - rows[0]["step"]
    learning = sum(row["seconds/train"] + row["seconds/replay"] for row in rows[1:])
    return done / max(rows[-1]["seconds"] - rows[0]["seconds"], 1e-9), done / max(learning, 1e-9)


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Steps per second of `work`, which makes some steps and says how many; the first call warms up."""
    work()
    steps, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        steps += work()
    return steps / elapsed


def _bare_limit(source: EnvSource, assembly: RunPlan, seconds: float) -> float:
    """Steps per second of one simulator in one core, with nothing around it."""
    if not source.is_atari:
        return 1.0 / min(
            time_step(source, assembly.config.atari, assembly.config.simulation.env_timeout) for _ in range(3)
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


def _simulators(assembly: RunPlan) -> VectorEnvs:
    config = assembly.config
    settings = StepperSettings(assembly.source, config.run.seed, config.simulation, config.atari)
    return assembly.simulators(settings, _ROWS)


def _simulate_only(assembly: RunPlan, seconds: float) -> float:
    """Random actions; every row is assembled as the network would take it."""
    simulators = _simulators(assembly)
    try:
        simulators.start()
        slot, groups = simulators.trajectory, range(len(simulators.groups))
        observations = slot_observations(slot, assembly.device)
        rng = np.random.default_rng(0)

        def work() -> int:
            actions = assembly.spec.action.sample(rng, _ROWS * slot.width)
            slot.action[:] = actions.reshape(slot.action.shape)
            for group in groups:
                observations.row(0, simulators.groups[group])
                simulators.step(group, 0)
            for t in range(_ROWS):
                for group in groups:
                    simulators.wait(group, t)
                    if t + 1 < _ROWS:
                        observations.row(t + 1, simulators.groups[group])
                        simulators.step(group, t + 1)
            steps = int(slot.valid.sum())
            simulators.carry_over()
            return steps

        return _rate(work, seconds)
    finally:
        simulators.close()


def _infer_only(assembly: RunPlan, seconds: float) -> float:
    """Actions for batches of one group, on one core or on all, whichever is quicker."""
    network, _ = assembly.network()
    algorithm = assembly.algorithm()
    width = assembly.config.simulation.num_simulators // assembly.plan.groups
    observation = blank_observation(assembly.spec, width, assembly.device)
    noise = algorithm.prepare_noise(torch.full((width, algorithm.action_noise(network)), 0.5), None).to(
        assembly.device
    )

    memories = RecurrentState(network, recurrent_size_of(network), width, assembly.device)
    forward = memories.at(slice(0, width), np.ones(width))

    @torch.no_grad()
    def work() -> int:
        for _ in range(20):
            algorithm.act(forward, observation, noise)[0].cpu()
        return 20 * width

    rates = []
    for threads in {1, len(allowed_cores())} if assembly.device.type == "cpu" else {torch.get_num_threads()}:
        torch.set_num_threads(threads)
        rates.append(_rate(work, seconds))
    return max(rates)


def _both(assembly: RunPlan, seconds: float) -> float:
    """Sampling as training does it."""
    disable_malloc_trim()
    network, _ = assembly.network()
    simulators = _simulators(assembly)
    try:
        simulators.start()
        sampler = Sampler(
            simulators,
            assembly.algorithm(),
            network,
            assembly.device,
            assembly.config.run.seed,
            StageClock(),
            noise=assembly.algorithm().action_noise(network),
            memory=recurrent_size_of(network),
            inference=assembly.infer_threads,
            cores=assembly.inference_cores,
        )

        def work() -> int:
            sampler.sample(0)
            steps = int(simulators.trajectory.valid.sum())
            sampler.start_next_rollout()
            return steps

        return _rate(work, seconds)
    finally:
        simulators.close()
