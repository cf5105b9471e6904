"""Modules preloaded in the fork server, so that the processes of a system with several roles have them from the start.

Loading the compiled parts of the replay buffer takes each process a second, but a fork server only once: so they are
called here, on tiny inputs. No torch function is called: its threads would not survive a fork.
"""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.returns import slot_returns
from veldt.replay.settings import NStep, ReplayConfig

_ROWS, _WIDTH = 8, 2


def _use_replay() -> None:
    spec = EnvSpec({"": ArraySpec((4,), "float32")}, ActionSpec("discrete", sizes=(2,), start=(0,)))
    returns = NStep(3, 0.99, False, True)
    slot = Trajectory(spec, _ROWS, _WIDTH, None)
    slot.episode_step[:] = np.arange(_ROWS + 1)[:, None]
    slot.valid[:] = True
    slot_returns(slot, returns)
    settings = ReplayConfig(buffer_size=_ROWS * _WIDTH, replay="prioritised")
    for config in (settings, dataclasses.replace(settings, replay="uniform")):
        buffer = ReplayBuffer(spec, _WIDTH, config, returns)
        buffer.append(slot, np.ones((_ROWS, _WIDTH)))
        batch = ReplayBatch.allocate(batch_layouts(spec, 4))
        buffer.sample(batch, 0)
        buffer.update(batch.key_N, np.ones(4))


# What the graphs and the simplest envs import.
for name in (
    "veldt.systems.apex.graph",
    "veldt.systems.ga3c.graph",
    "veldt.systems.impala.graph",
    "gymnasium.envs.classic_control",
    "veldt.envs.atari",
):
    importlib.import_module(name)
_use_replay()
