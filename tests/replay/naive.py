"""A naive replay buffer: it looks up transitions in the complete history of each env, one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from simulated_envs import RecordedStep, SimulatedEnvs

from veldt.replay.settings import NStep


@dataclass
class Transition:
    action: np.ndarray
    reward: float
    discount: float
    observation: dict[str, np.ndarray]
    next_observation: dict[str, np.ndarray]


def sampleable(envs: SimulatedEnvs, steps: int, share: int) -> list[set[int]]:
    """The numbers of the steps that a buffer of `share` rows an env has for n = `steps`, by env."""
    kept = []
    for life in envs.lives:
        complete = life.rows[: max(0, len(life.rows) - steps + 1)]
        kept.append({row.number for row in complete[-share:] if row is not None})
    return kept


def transition(envs: SimulatedEnvs, returns: NStep, number: int) -> Transition:
    """The transition that begins with step `number`."""
    b, begin = next(
        (b, i)
        for b, life in enumerate(envs.lives)
        for i, row in enumerate(life.rows)
        if row is not None and row.number == number
    )
    rows = envs.lives[b].rows
    first = rows[begin]
    assert first is not None
    reward, discount, last = 0.0, 1.0, first
    for row in rows[begin : begin + returns.steps]:
        if row is None:
            break
        gained = np.clip(row.reward, -1, 1) if returns.clip_rewards else row.reward
        reward, last = reward + discount * gained, row
        discount *= returns.gamma
        if row.terminated or (returns.terminal_on_life_loss and row.life_lost):
            discount = 0.0
            break
    return Transition(first.action, reward, discount, _stacks(envs, b, first, 0), _stacks(envs, b, last, 1))


def _stacks(envs: SimulatedEnvs, b: int, row: RecordedStep, after: int) -> dict[str, np.ndarray]:
    """What the network sees at the row, or `after` steps later in the same episode."""
    seen = {}
    for name, field in envs.spec.observation.items():
        episode_steps = [row.episode_step + after - back for back in reversed(range(field.stack))]
        frames = [
            envs.observation(name, b, row.episode, episode_step)
            if episode_step >= 0
            else np.zeros(field.shape, field.dtype)
            for episode_step in episode_steps
        ]
        seen[name] = np.stack(frames, -1) if field.stack > 1 else frames[0]
    return seen
