"""Drives envs through a trajectory slot as a sampler does, with a fixed policy and without a network."""

from __future__ import annotations

import multiprocessing
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from veldt.envs.action_replay import ActionsUntil
from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.in_process import VectorEnvs
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.spec import ActionSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import ROW_FIELDS, STEP_FLAGS, Trajectory

RUN_SEED = 5

# (env, its own step counter, its observation) -> stored action
Policy = Callable[[int, int, list[np.ndarray]], Any]


def settings_for(
    env: Any, atari: AtariConfig | None = None, run_seed: int = RUN_SEED, **simulation: Any
) -> StepperSettings:
    config = EnvConfig(**{"num_envs": 4, **simulation})
    return StepperSettings(resolve(env), run_seed, config, atari or AtariConfig())


def make(
    settings: StepperSettings,
    steps: int,
    groups: int = 1,
    processes: int = 0,
    stacks: bool = False,
    actions_until: ActionsUntil = lambda b, t: None,
) -> VectorEnvs:
    """In this process, or in `processes` of their own (all on one core: that changes no number)."""
    backend = "workers" if processes else "in-process"
    arrangement = Arrangement(backend, processes, groups, (0,) * processes, "for a test")
    spec = probe_spec(settings.source, settings.atari)
    return make_vector_envs(settings, spec, steps, arrangement, stacks, actions_until)


def kill_child(name: str) -> None:
    """Kills the process of this name, at once."""
    (child,) = (child for child in multiprocessing.active_children() if child.name == name)
    child.kill()
    child.join(10)


def stop_child(name: str) -> None:
    """Stops the process of this name, as a debugger or a user does."""
    (child,) = (child for child in multiprocessing.active_children() if child.name == name)
    os.kill(child.pid or 0, signal.SIGSTOP)


def hashing_policy(action: ActionSpec) -> Policy:
    """A function of the observation's every byte, of the env and of the step, and of nothing else."""

    def act(b: int, step: int, rows: list[np.ndarray]) -> Any:
        seed = zlib.crc32(b"".join(row.tobytes() for row in rows), 1000 * b + step)
        return action.sample(np.random.default_rng(seed), 1)[0]

    return act


def fill(envs: VectorEnvs, policy: Policy, first_step: int = 0) -> None:
    """Fills the slot once, groups taking turns as in the sampler."""
    slot = envs.trajectory

    def begin(group: int, t: int) -> None:
        part = envs.groups[group]
        for b in range(part.start, part.stop):
            slot.action[t, b] = policy(b, first_step + t, [row[0] for row in slot.rows(t, slice(b, b + 1))])
        envs.step(group, t)

    for group in range(len(envs.groups)):
        begin(group, 0)
    for t in range(slot.steps):
        for group in range(len(envs.groups)):
            envs.wait(group, t)
            if t + 1 < slot.steps:
                begin(group, t + 1)


def phases(envs: VectorEnvs, policy: Policy, count: int, resets: str = "mid-batch") -> Iterator[Trajectory]:
    """The full slot, `count` times; between two of them what the synchronous system does between two."""
    slot = envs.trajectory
    for phase in range(count):
        fill(envs, policy, phase * slot.steps)
        if resets == "wait":
            envs.reset_ended()
        yield slot
        envs.start_next_rollout()
        if resets == "wait":
            envs.finish_resets()


def copy_of(slot: Trajectory) -> dict[str, np.ndarray]:
    """Everything in the slot, by name."""
    names = (*ROW_FIELDS, *STEP_FLAGS, "action", "reward", "restarts")
    arrays = {name: getattr(slot, name).copy() for name in names}
    return arrays | {f"observation/{name}": array.copy() for name, array in slot.observation.items()}
