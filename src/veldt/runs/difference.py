"""Finds where the results of two runs differ: episodes, and what their newest checkpoints hold."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from veldt.errors import CheckpointError, VeldtError
from veldt.runs.checkpoint_files import Checkpoint, restoring
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import ActionsFile, EpisodeRecord, read_episodes
from veldt.runs.files import open_to_read
from veldt.runs.own_names import EPISODES


def first_difference(run: Path, other: Path) -> str | None:
    """Returns in words where the results of two runs first differ; None if they are the same bit for bit.

    Compared are the episodes of each env with their actions, and the newest whole checkpoints: the step, and every
    array (weights, the update rule's state, the rows of the envs). Times are not compared, nor the order in which
    episodes of different envs are listed: several learners report theirs when they come to it.

    Raises:
        CheckpointError: a run has no whole checkpoint.
        VeldtError: actions of an episode cannot be read.
    """
    ours, theirs = _by_env(read_episodes(run)), _by_env(read_episodes(other))
    with ActionsFile(run) as actions, ActionsFile(other) as other_actions:
        for key, one in ours.items():
            name = f"episode {one.episode:,} of env {one.env}, which ended at step {one.step:,},"
            if (another := theirs.get(key)) is None:
                return f"{name} is not in the other run"
            if not _same_course(one, another):
                return (
                    f"{name} has return {one.score:g} and length {one.length:,}, and in the other run "
                    f"{another.score:g} and {another.length:,}"
                )
            if not _same_actions(one, another, actions, other_actions):
                return f"{name} has other actions in the other run"
    if len(ours) != len(theirs):
        return f"{len(ours):,} episodes ended, and {len(theirs):,} in the other run"
    return _difference_of_checkpoints(_newest(run), _newest(other))


def check_comparable(run: Path, steps: int) -> None:
    """Checks that all is there of a run's results that `first_difference` compares.

    Args:
        steps: at which the run ended.

    Raises:
        CheckpointError: the newest checkpoint is damaged, or not that of the run's end.
        VeldtError: an episode, or its actions, cannot be read.
    """

    def refuse(problem: str) -> None:
        raise CheckpointError(f"the weights at the end of {run} cannot be compared: {problem}")

    newest = CheckpointStore(RunDirectory(run).checkpoints).newest(refuse)
    if newest.step < steps:
        refuse(f"the newest checkpoint is of step {newest.step:,}, and the run ended at step {steps:,}")
    path, episodes = run / EPISODES, read_episodes(run)
    size, lines = _extent(path)
    with restoring(newest):
        is_cut = size < newest.meta["monitor"]["episode_log"][0]
    if is_cut or lines != len(episodes):
        why = (
            "its end is missing"
            if is_cut
            else f"{lines - len(episodes):,} of its lines are not as veldt writes them"
        )
        raise VeldtError(f"the episodes of {run} cannot be compared: {path} is damaged, {why}")
    with ActionsFile(run) as actions:
        for episode in episodes:
            if episode.kept:
                actions.read(episode)


def _by_env(episodes: list[EpisodeRecord]) -> dict[tuple[int, int], EpisodeRecord]:
    """Returns the episodes by env and number, in the order of their ends."""
    return {(episode.env, episode.episode): episode for episode in episodes}


def _same_course(one: EpisodeRecord, other: EpisodeRecord) -> bool:
    are_no_number = math.isnan(one.score) and math.isnan(other.score)
    return (one.score == other.score or are_no_number) and all(
        getattr(one, name) == getattr(other, name) for name in ("seed", "length", "prefix", "kept")
    )


def _same_actions(
    one: EpisodeRecord, other: EpisodeRecord, actions: ActionsFile, other_actions: ActionsFile
) -> bool:
    return not one.kept or actions.read(one).tobytes() == other_actions.read(other).tobytes()


def _extent(path: Path) -> tuple[int, int]:
    """Returns the bytes and the lines of a file; none of either if it does not exist."""
    try:
        with open_to_read(path) as file:
            return os.fstat(file.fileno()).st_size, sum(1 for _ in file)
    except FileNotFoundError:
        return 0, 0


def _newest(run: Path) -> Checkpoint:
    return CheckpointStore(RunDirectory(run).checkpoints).newest(lambda _: None)


def _difference_of_checkpoints(one: Checkpoint, other: Checkpoint) -> str | None:
    if one.step != other.step:
        return f"the newest checkpoint is of step {one.step:,}, and in the other run of step {other.step:,}"
    for group in sorted(one.groups.keys() | other.groups.keys()):
        arrays, others = one.groups.get(group, {}), other.groups.get(group, {})
        for name in sorted(arrays.keys() | others.keys()):
            if name not in arrays or name not in others:
                return f"only one of the checkpoints has {name} of {group}"
            if not _same_bits(arrays[name], others[name]):
                return f"{name} of {group} in the checkpoint of step {one.step:,} is not the same"
    return None


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
