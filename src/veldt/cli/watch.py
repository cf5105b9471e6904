"""Videos of episodes: new ones, and training episodes replayed from their seed and actions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from veldt import api
from veldt.agent import Agent
from veldt.envs.env import StepEnv
from veldt.envs.seeding import EVALUATION, derive_seed, uniform
from veldt.errors import EnvError, UsageError, VeldtError
from veldt.evaluation.rendered_env import RenderedEnv
from veldt.evaluation.video_file import check_new_video, write_video
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeRecord, read_episodes
from veldt.runs.own_files import refuse_other

_FPS = 30.0


def record(
    run: Path,
    episode: int | None,
    seed: int,
    greedy: bool,
    best: bool,
    out: Path | None,
    code: Mapping[str, Any] | None = None,
) -> str:
    """Writes the video of an episode; returns a sentence with its path, length and return.

    Args:
        episode: index of a finished training episode, from the end if negative; None plays a new one.
        seed, greedy: of the new episode; as for `veldt.evaluate`.
        best: as for `veldt.load`.
        code: arguments of `veldt.load` on the code of the run.
        out: the new file; None: a file in the run's videos/, replacing an earlier video of the same episode.

    Raises:
        UsageError: there is no such run or episode, its environment does not render, `out` exists or is not the
            name of a video, or as for `veldt.load`.
        EnvError: the environment failed.
        VeldtError: the replay differs from training, or the encoder or the disk failed.
    """
    directory = RunDirectory.open(run)
    # Checked before playing.
    if out is None:
        refuse_other(directory.videos, stat.S_IFDIR)
    else:
        check_new_video(out)
    # Frames are recorded, not shown: without this, pygame fails where there is no screen.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    agent = api.load(run, best=best, **(code or {}))
    rendered = RenderedEnv(agent.source, agent.config.atari)
    scores: list[float] = []
    try:
        if episode is None:
            frames = _play(agent, rendered, seed, greedy, scores)
            out = out or directory.videos / f"step-{agent.step}-seed-{seed}.mp4"
        else:
            episodes = read_episodes(directory.path)
            index = _index(episode, len(episodes))
            frames = _replay(agent, rendered, episodes[index], index, scores)
            out = out or directory.videos / f"episode-{index}.mp4"
        fps = 60.0 / agent.spec.frames_per_step if agent.spec.frames_per_step > 1 else _FPS
        write_video(frames, out, fps)
    except EnvError as error:
        if isinstance(error.__cause__, gymnasium.error.DependencyNotInstalled):
            raise UsageError(_not_drawn(agent.source.name, error.__cause__)) from None
        raise
    finally:
        rendered.close()
    return f"{out}: an episode of {len(scores):,} steps, raw return {sum(scores):,.1f}"


def _play(agent: Agent, env: StepEnv, seed: int, greedy: bool, scores: list[float]) -> Iterator[np.ndarray]:
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


def _index(episode: int, num_episodes: int) -> int:
    """Returns `episode` as an index from the first."""
    if not num_episodes:
        raise UsageError(
            f"--episode is {episode}: the run has finished no episode yet; leave it out to watch a new one"
        )
    if not -num_episodes <= episode < num_episodes:
        raise UsageError(
            f"--episode is {episode}: the run has {num_episodes} finished episodes, 0 to {num_episodes - 1}"
        )
    return episode % num_episodes


def _not_drawn(name: str, error: Exception) -> str:
    if "pygame" in str(error):
        return f"{name} is drawn with pygame, which is not installed: pip install 'veldt[video]'"
    return f"{name} cannot be drawn: {error}"


def _replay(
    agent: Agent, env: StepEnv, record: EpisodeRecord, episode: int, scores: list[float]
) -> Iterator[np.ndarray]:
    spec = agent.spec.action
    with np.errstate(invalid="ignore"):
        actions = record.actions().astype(spec.dtype)
    if not spec.contains(actions):
        raise VeldtError(
            f"episode {episode} has actions that {agent.source.name} does not take: it is damaged"
        )
    rows = [np.zeros((1, *field.shape), field.dtype) for field in agent.spec.observation.values()]
    env.reset(record.seed, rows, 0)
    yield env.render()
    for action in actions.tolist() if spec.kind == "discrete" else actions:
        reward, _, _, _ = env.step(action, rows, 0)
        scores.append(float(np.float32(reward)))  # rows hold rewards as float32, and training sums those
        yield env.render()
    # The same rewards, summed in another order.
    rounding = len(scores) * np.finfo(np.float64).eps * sum(map(abs, scores))
    if abs(sum(scores) - record.score) > rounding:
        raise VeldtError(
            f"episode {episode} scored {record.score:g} in training and {sum(scores):g} when replayed: "
            f"the environment {agent.source.name} is not deterministic, so its episodes cannot be replayed"
        )
