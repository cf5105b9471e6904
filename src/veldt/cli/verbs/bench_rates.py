"""The parts of sampling by themselves and together, each in agent steps per second; reset steps do not count."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from veldt.envs.arrangement import time_step
from veldt.envs.in_process import VectorEnvs
from veldt.envs.source import EnvSource
from veldt.envs.stepper_settings import StepperSettings
from veldt.networks.recurrent import RecurrentState, recurrent_size_of
from veldt.runtime.cores import allowed_cores
from veldt.runtime.system_memory import disable_malloc_trim
from veldt.sampling.checked_actions import num_noise
from veldt.sampling.observations import blank_observation, slot_observations
from veldt.sampling.sampler import ActingPolicy, Sampler
from veldt.systems.planning.run_plan import RunPlan
from veldt.tracking.stage_clock import StageClock

ROWS = 32  # steps of each env in a rollout, unless the caller gives a number


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Returns the steps per second of `work`, which returns its number of steps; the first call is a warm-up."""
    work()
    steps, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        steps += work()
    return steps / elapsed


def bare_limit(source: EnvSource, run_plan: RunPlan, seconds: float) -> float:
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


def _envs(run_plan: RunPlan, rows: int) -> VectorEnvs:
    config = run_plan.config
    settings = StepperSettings(run_plan.source, config.run.seed, config.envs, config.atari)
    return run_plan.envs(settings, rows)


def _reset_between(run_plan: RunPlan, envs: VectorEnvs, start_next_rollout: Callable[[], None]) -> None:
    """Starts the next rollout; envs that waited for the end of this one begin an episode in it."""
    waits = run_plan.config.envs.resets == "wait"
    if waits:
        envs.reset_ended()
    start_next_rollout()
    if waits:
        envs.finish_resets()


def simulate_only(run_plan: RunPlan, seconds: float) -> float:
    """Steps with random actions, and assembles every row as input for the network."""
    envs = _envs(run_plan, ROWS)
    try:
        envs.start()
        slot, groups = envs.trajectory, range(len(envs.groups))
        observations = slot_observations(slot, run_plan.device)
        rng = np.random.default_rng(0)

        def work() -> int:
            actions = run_plan.spec.action.sample(rng, ROWS * slot.width)
            slot.action[:] = actions.reshape(slot.action.shape)
            for group in groups:
                observations.row(0, envs.groups[group])
                envs.step(group, 0)
            for t in range(ROWS):
                for group in groups:
                    envs.wait(group, t)
                    if t + 1 < ROWS:
                        observations.row(t + 1, envs.groups[group])
                        envs.step(group, t + 1)
            steps = int(slot.valid.sum())
            _reset_between(run_plan, envs, envs.start_next_rollout)
            return steps

        return _rate(work, seconds)
    finally:
        envs.close()


def infer_only(run_plan: RunPlan, seconds: float) -> float:
    """Computes actions for batches of one group, with one thread or one for each core, whichever is faster."""
    network, _ = run_plan.network()
    algorithm = run_plan.algorithm()
    width = run_plan.config.envs.num_envs // run_plan.arrangement.groups
    observation = blank_observation(run_plan.spec, width, run_plan.device)
    noise = algorithm.prepare_noise(torch.full((width, num_noise(algorithm, network)), 0.5), None).to(
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


def sampling_speed(
    run_plan: RunPlan,
    seconds: float,
    rows: int = ROWS,
    after_rollout: Callable[[], None] = lambda: None,
    heartbeat: Callable[[], None] = lambda: None,
) -> float:
    """Returns the steps per second of sampling as training does it, in rollouts of `rows` steps of each env."""
    disable_malloc_trim()
    network, _ = run_plan.network()
    envs = _envs(run_plan, rows)
    try:
        envs.start()
        sampler = Sampler(
            envs,
            ActingPolicy.of(run_plan.algorithm(), network),
            run_plan.inference_place,
            run_plan.config.run.seed,
            StageClock(),
            heartbeat=heartbeat,
        )

        def work() -> int:
            sampler.sample(0)
            steps = int(envs.trajectory.valid.sum())
            _reset_between(run_plan, envs, sampler.start_next_rollout)
            after_rollout()
            return steps

        return _rate(work, seconds)
    finally:
        envs.close()
