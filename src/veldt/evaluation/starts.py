"""Starts in the middle of an episode: the human starts of Nair et al. (2015, section 5), recorded by any player.

A start is the seed of an episode and its first actions, which determine everything in the episode, and a digest of the
state they lead to, which detects a different state at replay.

Of Atari's settings, a start contains those that decide which state a seed and actions lead to (`_DECISIVE`, and the
no-ops that the reset plays). Settings of the observation are not included, so agents with other frames or stacks can
use the same starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import ActionSpec
from veldt.envs.step_env import StepEnv, make_step_env
from veldt.errors import EnvError, UsageError, as_error
from veldt.evaluation.starts_file import read_starts_file, write_starts_file
from veldt.runs.episodes import smallest
from veldt.runtime.activity import Record, running
from veldt.runtime.watchdog import within
from veldt.setting_metadata import check_type
from veldt.setting_text import flag

_DECISIVE = ("frame_skip", "sticky_actions", "full_action_space")
# An episode's seed and stored actions [length, ...].
Beginning = tuple[int, np.ndarray]


@dataclass(frozen=True)
class Start:
    """A state in an episode: its `seed`, stored `actions` [length, ...], and the `digest` of the state."""

    seed: int
    actions: np.ndarray
    digest: str


@dataclass(frozen=True, kw_only=True)
class Starts:
    """The content of a file of starts.

    `made` describes how they were recorded, `versions` the software; `atari` has the emulator's settings that they
    depend on, by name (none for other envs).
    """

    path: Path
    env: str
    env_kwargs: Mapping[str, Any]
    atari: Mapping[str, Any]
    made: Mapping[str, Any]
    versions: Mapping[str, str]
    each: tuple[Start, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.each)

    @property
    def lengths(self) -> list[int]:
        """Agent steps from the beginning of each episode to its start."""
        return [len(start.actions) for start in self.each]

    def write(self) -> None:
        """Writes the starts to `path`. Raises VeldtError if the file cannot be written."""
        arrays = {
            "seed": np.array([start.seed for start in self.each], np.int64),
            "length": np.array(self.lengths, np.int64),
            "actions": smallest(np.concatenate([start.actions for start in self.each])),
        }
        digests = [start.digest for start in self.each]
        names = ("env", "env_kwargs", "atari", "made", "versions")
        manifest = {name: getattr(self, name) for name in names} | {"digests": digests}
        write_starts_file(self.path, arrays, manifest)

    def emulator(self, atari: AtariConfig) -> AtariConfig:
        """Returns the policy's emulator settings, with the no-ops of the starts' resets."""
        return dataclasses.replace(atari, no_ops=self.atari["no_ops"]) if self.atari else atari

    def refuse_other(self, source: EnvSource, atari: AtariConfig, action: ActionSpec) -> None:
        """Raises UsageError if the starts belong to another env, or to the same env with other settings."""
        if source.name != self.env:
            raise UsageError(
                f"--starts {self.path} has starts of {self.env}, and the run plays {source.name}: record starts "
                "of the run's environment with `veldt record-starts`"
            )
        if dict(source.kwargs) != dict(self.env_kwargs):
            raise UsageError(
                f"--starts {self.path} has starts of {self.env} with {dict(self.env_kwargs)}, and the run makes it "
                f"with {dict(source.kwargs)}: record starts with the run's arguments"
            )
        for name in _DECISIVE if self.atari else ():
            if self.atari[name] != getattr(atari, name):
                raise UsageError(
                    f"--starts {self.path} was recorded with {flag(name)} {self.atari[name]}, and the run has "
                    f"{getattr(atari, name)}: the same actions lead to another point of the game; record starts with "
                    "the run's value"
                )
        if self.atari and (longest := max(self.lengths)) >= atari.max_episode_steps:
            raise UsageError(
                f"--starts {self.path} has a start {longest:,} steps into an episode, and the run's episodes end after "
                f"{atari.max_episode_steps:,} (--max-episode-steps): record shorter ones"
            )
        if any(not action.contains(start.actions) for start in self.each):
            raise UsageError(
                f"--starts {self.path} has actions that {self.env} does not take: the environment has changed; record "
                "new starts"
            )


def read_starts(path: Path) -> Starts:
    """Reads the starts in the file `path`. Raises UsageError if it is no such file, is damaged or is empty."""
    arrays, manifest = read_starts_file(path)
    try:
        seeds, lengths, actions = arrays["seed"], arrays["length"], arrays["actions"]
        digests = manifest.pop("digests")
        parts = np.split(actions, np.cumsum(lengths)[:-1]) if len(lengths) else []
        stored = actions.astype(np.int64 if actions.dtype.kind in "iu" else np.float32).dtype
        each = tuple(
            Start(int(seed), part.astype(stored), digest)
            for seed, part, digest in zip(seeds, parts, digests, strict=True)
        )
        if lengths.sum() != len(actions):
            raise ValueError("the lengths of its starts are not those of its actions")
        if any(start.seed < 0 for start in each):
            raise ValueError("one of its seeds is negative")
        names = ("env", "env_kwargs", "atari", "made", "versions")
        starts = Starts(path=path, each=each, **{name: manifest[name] for name in names})
        _check_types(starts)
    except (AttributeError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"--starts {path} is not a file of starts: {error}; record new ones") from error
    if not starts.each:
        raise UsageError(f"--starts {path} has no starts: record some with `veldt record-starts`")
    return starts


def make_starts(
    path: Path,
    source: EnvSource,
    atari: AtariConfig,
    beginnings: Sequence[Beginning],
    *,
    made: Mapping[str, Any],
    versions: Mapping[str, str],
    timeout: float,
) -> Starts:
    """Makes starts from `beginnings`. It replays each in two envs, in opposite order, and compares the states reached.

    Args:
        timeout: seconds after which a step or reset counts as hung.

    Raises:
        UsageError: the two states differ, so the start cannot be reproduced.
        EnvError: the env failed.
    """
    name, when = f"environment {source.name}", "when its starts were played again"
    with (
        running(name, when) as record,
        as_error(EnvError, record.failure),
        within(timeout, record.progress.tobytes, record.failure, " (--env-timeout)"),
    ):
        digests_forward = _digests(source, atari, beginnings, record)
        digests_backward = _digests(source, atari, beginnings[::-1], record)[::-1]
    pairs = zip(digests_forward, digests_backward, strict=True)
    digests = [first for first, second in pairs if first is not None and first == second]
    if len(digests) < len(beginnings):
        raise UsageError(
            f"{source.name} is not deterministic: the same seed and actions lead to other observations when they "
            "are played again, so its starts cannot be recorded"
        )
    decisive = {name: getattr(atari, name) for name in (*_DECISIVE, "no_ops")} if source.is_atari else {}
    return Starts(
        path=path,
        env=source.name,
        env_kwargs=dict(source.kwargs),
        atari=decisive,
        made=dict(made),
        versions=dict(versions),
        each=tuple(Start(*beginning, digest) for beginning, digest in zip(beginnings, digests, strict=True)),
    )


def check_numbers(starts: int, seed: int) -> tuple[int, int]:
    """Returns the number of starts and the seed, as `check_type` does; UsageError for one that is out of range."""
    starts, seed = check_type(flag("starts"), starts, int), check_type(flag("seed"), seed, int)
    if starts < 1:
        raise UsageError(f"--starts is {starts}: it must be at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}: it must be 0 or more")
    return starts, seed


def digest_of(state: bytes | None, observation: Sequence[np.ndarray], score: float) -> str:
    """The digest of a state: of the emulator's state, or without one of the observation; and of the return so far."""
    seen = [state] if state is not None else [array.tobytes() for array in observation]
    digest = hashlib.sha256(struct.pack("<d", score))
    for part in seen:
        digest.update(part)
    return digest.hexdigest()


def draw_points(lengths: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Draws a step in each episode, uniform over its length: the number of actions before it, 0 for the reset."""
    return [int(rng.integers(0, length)) for length in lengths]


def _digests(
    source: EnvSource, atari: AtariConfig, beginnings: Sequence[Beginning], record: Record
) -> list[str | None]:
    """The digests of the states that the beginnings lead to; see `_digest_after`."""
    env = make_step_env(source, atari)
    try:
        return [_digest_after(env, seed, actions, record) for seed, actions in beginnings]
    finally:
        env.close()


def _digest_after(env: StepEnv, seed: int, actions: np.ndarray, record: Record) -> str | None:
    """The digest of the state that the actions lead to; None if the episode ends before."""
    rows = [np.zeros((1, *field.shape), field.dtype) for field in env.spec.observation.values()]
    record.resets(seed)
    env.reset(seed, rows, 0)
    record.steps()
    score = 0.0
    for action in actions.tolist() if env.spec.action.kind == "discrete" else actions:
        reward, terminated, truncated, _ = env.step(action, rows, 0)
        record.progress[2] += 1
        score += float(np.float32(reward))  # rounded as in trajectory rows
        if terminated or truncated:
            return None
    return digest_of(env.save(), [row[0] for row in rows], score)


def _check_types(starts: Starts) -> None:
    """Raises ValueError if the values that describe the starts are not of the types that `write` gives them."""
    described = (starts.env_kwargs, starts.atari, starts.made, starts.versions)
    if not isinstance(starts.env, str) or not all(isinstance(value, dict) for value in described):
        raise ValueError("its env, or what describes how it was made, is not as veldt writes it")
    if starts.atari and not {*_DECISIVE, "no_ops"} <= starts.atari.keys():
        raise ValueError("it lacks settings of the emulator")
