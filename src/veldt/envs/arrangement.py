"""Chooses the backend, the number of processes and the number of groups by measuring on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from veldt.envs.action_replay import ActionsUntil
from veldt.envs.failures import TO_GO_ON
from veldt.envs.in_process import InProcessEnvs, VectorEnvs
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.envs.step_env import StepEnv, make_step_env
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.errors import EnvError, as_error
from veldt.formatting import short_time
from veldt.runtime.activity import Record, running
from veldt.runtime.cores import allowed_cores, worker_cores
from veldt.runtime.watchdog import time_to_close, within
from veldt.user_code.torch_state import users_torch
from veldt.user_code.working_directory import back_here

_PROBE_SECONDS, _CHUNKS = 0.04, 5
_ENOUGH_S = 1.0  # no further chunk after this time: a slow env is known well enough by then
_SPIN_S = 50e-6
_MAKE_DEADLINE = 120.0  # seconds
# Worker processes pay off if a process steps for at least this many times as long as a message to it and back takes.
WORTH_PROCESSES = 10.0


@dataclass(frozen=True)
class Arrangement:
    """Where and how the envs run; `reason` is one sentence for the user."""

    backend: Literal["in-process", "workers"]
    processes: int
    groups: int
    cores: tuple[int, ...]
    reason: str

    def resolve(self, config: EnvConfig) -> EnvConfig:
        """Returns the configuration with each `auto` replaced by the choice made."""
        return dataclasses.replace(
            config,
            env_backend=self.backend,
            processes=self.processes,
            alternate="on" if self.groups == 2 else "off",
        )


@back_here()
def probe_spec(source: EnvSource, atari: AtariConfig) -> EnvSpec:
    """Returns the spec of the environment, read from one instance. EnvError if the instance cannot be made."""
    name = f"environment {source.name}"
    with running(name) as record, users_torch:
        with (
            as_error(EnvError, f"{name} could not be made"),
            within(_MAKE_DEADLINE, lambda: 0, lambda: f"{name} hangs when it is made"),
        ):
            env = make_step_env(source, atari)
        record.closes()
        with as_error(EnvError, f"{name} failed when it was closed"), time_to_close(name):
            env.close()
        return env.spec


@back_here()
def time_step(source: EnvSource, atari: AtariConfig, timeout: float) -> float:
    """Returns the seconds that one env takes per step with random actions, resets included.

    EnvError if the env fails, or if a reset or a step takes longer than `timeout` seconds.
    """
    name, when = f"environment {source.name}", "when its speed was measured with random actions"
    with (
        running(name, when, can_be_apart=True) as record,
        as_error(EnvError, record.failure),
        within(timeout, record.progress.tobytes, record.failure, " (--env-timeout)"),
        users_torch,
    ):
        env = make_step_env(source, atari)
        try:
            with as_error(EnvError, record.failure):  # before it is closed, which changes the sentence
                return _time_step(env, record)
        finally:
            record.closes()
            with time_to_close(name):
                env.close()


def _time_step(env: StepEnv, record: Record) -> float:
    rng = np.random.default_rng(0)
    rows = [np.zeros((1, *field.shape), field.dtype) for field in env.spec.observation.values()]
    actions = env.spec.action.sample(rng, 64)
    actions = actions.tolist() if env.spec.action.kind == "discrete" else actions
    ended, done = False, 0

    def reset() -> None:
        record.resets(done)
        env.reset(done, rows, 0)
        record.steps(done)

    def chunk() -> float:
        nonlocal ended, done
        steps, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < _PROBE_SECONDS / _CHUNKS or steps < 2:
            if ended:
                reset()
            _, terminated, truncated, _ = env.step(actions[done % 64], rows, 0)
            ended, steps, done = terminated or truncated, steps + 1, done + 1
            record.progress[2] = done
        return elapsed / steps

    reset()
    # The minimum of several runs: on a shared machine, the slower ones measure the other processes.
    begin, chunks = time.perf_counter(), [chunk()]
    while len(chunks) < _CHUNKS and time.perf_counter() - begin < _ENOUGH_S:
        chunks.append(chunk())
    return min(chunks)


def time_message(repeats: int = 100) -> float:
    """Returns the seconds of a message to another process and back: the overhead of one step in a worker."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as echo:
        assert echo.stdin is not None and echo.stdout is not None
        seconds = []
        with _on_different_cores(echo.pid):
            for _ in range(repeats):
                begin = time.perf_counter()
                echo.stdin.write(b"x")
                echo.stdout.read(1)
                seconds.append(time.perf_counter() - begin)
        echo.stdin.close()
    return float(np.median(seconds))


@contextlib.contextmanager
def _on_different_cores(pid: int) -> Iterator[None]:
    """Pins this process to one core and `pid` to another: on one shared core, messages would be much faster."""
    cores = allowed_cores()
    if len(cores) < 2 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    os.sched_setaffinity(pid, {cores[-1]})
    os.sched_setaffinity(0, {cores[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def arrange(
    source: EnvSource,
    config: EnvConfig,
    atari: AtariConfig,
    accelerators: int,
    learners: int = 1,
    chosen: str = "as asked",
) -> Arrangement:
    """Chooses what `config` leaves open, for one of `learners` that share the cores. Each accelerator takes a core.

    `chosen` is the reason for what it does not leave open.
    """
    cores = (len(allowed_cores()) - accelerators) // learners
    if config.env_backend == "in-process":
        return _in_process(config, chosen)
    reason = chosen
    if config.env_backend == "auto":
        if cores < 2 and not accelerators and config.processes == 0:
            return _in_process(
                config, "there is one core" if learners == 1 else "a learner has one core at most"
            )
        worth, reason = _worth_processes(source, config, atari, cores)
        if not worth and config.processes == 0:
            return _in_process(config, reason)
    processes = config.processes or min(config.num_envs, max(cores, 1))
    # Where inference runs beside the envs, alternating groups hide the shorter of the two times. On the cores of the
    # envs nothing is hidden, and two groups need twice as many messages and passes of the network.
    runs_beside = accelerators > 0 or processes < cores
    alternate = config.alternate == "on" or (config.alternate == "auto" and runs_beside)
    groups = 2 if alternate and config.num_envs >= 2 else 1
    return Arrangement("workers", processes, groups, tuple(worker_cores(processes, accelerators)), reason)


def _worth_processes(
    source: EnvSource, config: EnvConfig, atari: AtariConfig, cores: int
) -> tuple[bool, str]:
    """Returns whether a step takes so much longer than a message that processes pay off, and the reason."""
    try:
        step, message_time = time_step(source, atari, config.env_timeout), time_message()
    except EnvError as error:
        if config.on_env_error == "stop":
            error.add_note(TO_GO_ON)
            raise
        return True, f"it is kept apart: {error}"
    share = step * config.num_envs / max(1, min(cores, config.num_envs))
    reason = f"a step takes {short_time(step)}, a message to a process and back {short_time(message_time)}"
    return share >= WORTH_PROCESSES * message_time, reason


def _in_process(config: EnvConfig, reason: str) -> Arrangement:
    return Arrangement("in-process", 0, 2 if config.alternate == "on" else 1, (), reason)


def make_vector_envs(
    settings: StepperSettings,
    spec: EnvSpec,
    steps: int,
    arrangement: Arrangement,
    stacks: bool = False,
    actions_until: ActionsUntil = lambda b, t: None,
) -> VectorEnvs:
    """Makes the envs of an arrangement, with a trajectory slot of `steps` rows.

    `stacks` as in `Trajectory`; `actions_until` as in `WorkerEnvs`.
    """
    if arrangement.backend == "in-process":
        trajectory = Trajectory(spec, steps, settings.envs.num_envs, None, stacks)
        return InProcessEnvs(settings, trajectory, arrangement.groups)
    from veldt.envs.workers import WorkerEnvs

    return WorkerEnvs(
        settings, spec, steps, arrangement.groups, arrangement.cores, _SPIN_S, actions_until, stacks
    )
