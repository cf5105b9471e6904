"""Videos of episodes: new ones, and training episodes replayed from their seed and actions."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from veldt import api
from veldt.agent import Agent
from veldt.envs.step_env import StepEnv
from veldt.errors import EnvError, UsageError, VeldtError
from veldt.evaluation.played_frames import draw_without_screen, not_drawn, played_frames
from veldt.evaluation.rendered_env import RenderedEnv
from veldt.evaluation.video_file import check_new_video, write_video
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeRecord, read_episodes
from veldt.runs.files import from_here
from veldt.runs.own_files import refuse_other


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
    place = out.absolute() if out is not None else None
    draw_without_screen()
    agent = api.load(run, best=best, **(code or {}))
    rendered = RenderedEnv(agent.source, agent.config.atari)
    scores: list[float] = []
    try:
        if episode is None:
            frames = played_frames(agent, rendered, seed, greedy, scores)
            name = f"step-{agent.step}-seed-{seed}.mp4"
        else:
            episodes = read_episodes(directory.place)
            index = _index(episode, len(episodes))
            frames = _replay(agent, rendered, episodes[index], index, scores)
            name = f"episode-{index}.mp4"
        place = place or directory.place / "videos" / name
        write_video(frames, place, rendered.steps_per_second)
    except EnvError as error:
        if isinstance(error.__cause__, gymnasium.error.DependencyNotInstalled):
            raise UsageError(not_drawn(agent.source.name, error.__cause__)) from None
        raise
    finally:
        rendered.close()
    shown = from_here(directory.videos / name if out is None else out, place)
    return f"{shown}: an episode of {len(scores):,} steps, raw return {sum(scores):,.1f}"


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
            f"the environment {agent.source.name} has changed since, or is not deterministic, so that the episode "
            "cannot be replayed"
        )
