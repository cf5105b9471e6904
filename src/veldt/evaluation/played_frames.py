"""The pictures of a new episode that a policy plays."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch

from veldt.agent import Agent
from veldt.envs.seeding import EVALUATION, derive_seed, uniform
from veldt.envs.step_env import StepEnv


def draw_without_screen() -> None:
    """Frames are recorded, not shown: without this, pygame fails where there is no screen."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def not_drawn(name: str, error: Exception) -> str:
    """Returns a sentence on an environment that cannot be drawn, because a package is missing."""
    if "pygame" in str(error):
        return f"{name} is drawn with pygame, which is not installed: pip install 'veldt[video]'"
    return f"{name} cannot be drawn: {error}"


def played_frames(
    agent: Agent, env: StepEnv, seed: int, greedy: bool, scores: list[float]
) -> Iterator[np.ndarray]:
    """Plays an episode, and yields its pictures; appends the reward of each step to `scores`."""
    stacks = [np.zeros((1, *field.network_shape), field.dtype) for field in agent.spec.observation.values()]
    depth = [field.stack for field in agent.spec.observation.values()]
    # A stacked field is written frame by frame at the end of its stack, any other field as it is.
    rows = [stack[0] if k > 1 else stack for stack, k in zip(stacks, depth, strict=True)]
    index, recurrent_state = -1, agent.initial_recurrent_state(1)
    env.reset(derive_seed(seed, EVALUATION, 0), rows, index)
    yield env.render()
    ended = False
    while not ended:
        inputs = {name: torch.from_numpy(s) for name, s in zip(agent.spec.observation, stacks, strict=True)}
        noise = uniform(seed, EVALUATION, np.zeros(1), np.array([len(scores)]), agent.noise)[0]
        forward = recurrent_state.at(slice(0, 1), np.array([len(scores)]))
        action = agent.choose(inputs if agent.spec.is_dict else inputs[""], noise, greedy, forward)[0]
        for row, k in zip(rows, depth, strict=True):
            if k > 1:
                row[:-1] = row[1:].copy()
        reward, terminated, truncated, _ = env.step(
            int(action) if agent.spec.action.kind == "discrete" else action, rows, index
        )
        scores.append(float(reward))
        ended = terminated or truncated
        yield env.render()
