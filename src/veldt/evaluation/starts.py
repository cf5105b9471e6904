"""Starts in the middle of a game: the human starts of Nair et al. (2015, section 5), whoever played before them.

A start is the seed of an episode and its first actions, as everything in an episode follows from these; and a digest of
where they lead, so that starting elsewhere is noticed.

Of Atari's settings, those that decide where seeds and actions lead belong to the starts (`_DECISIVE`, and the no-ops
that the reset of a seed plays). What a policy sees of a game does not: agents with other frames or stacks start there,
too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt.envs.env import StepEnv, make_step_env
from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import ActionSpec
from veldt.errors import EnvError, UsageError, as_error
from veldt.evaluation.starts_file import read_starts_file, write_starts_file
from veldt.runs.episodes import smallest
from veldt.runtime.activity import Record, running
from veldt.runtime.watchdog import within
from veldt.setting_metadata import flag

_DECISIVE = ("frame_skip", "sticky_actions", "full_action_space")
# Of a seed and actions [length, ...], as stored.
Beginning = tuple[int, np.ndarray]


@dataclass(frozen=True)
class Start:
    """A place in a game: `seed` of its episode, `actions` [length, ...] as stored, and `digest` of what is there."""

    seed: int
    actions: np.ndarray
    digest: str


@dataclass(frozen=True, kw_only=True)
class Starts:
    """The starts of a file.

    `made` says by whom, `versions` with what; `atari` are the emulator's settings that they depend on, by name (none
    for other environments).
    """

    path: Path
    env: str
    env_kwargs: Mapping[str, Any]
    atari: Mapping[str, Any]
    made: Mapping[str, Any]
    versions: Mapping[str, str]
    each: tuple[Start, ...]

    def __len__(self) -> int:
        return len(self.each)

    @property
    def lengths(self) -> list[int]:
        """Agent steps from the beginning of each game to its start."""
        return [len(start.actions) for start in self.each]

    def write(self) -> None:
        """Writes them to `path`; VeldtError if the disk refuses."""
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
        """The settings of a policy's emulator, with the no-ops that the starts' resets play."""
        return dataclasses.replace(atari, no_ops=self.atari["no_ops"]) if self.atari else atari

    def refuse_other(self, source: EnvSource, atari: AtariConfig, action: ActionSpec) -> None:
        """UsageError if they are starts of another environment than this, or of one with other settings."""
        if source.name != self.env:
            raise UsageError(
                f"--starts {self.path} has starts of {self.env}, and the run plays {source.name}: record some "
                "of that with `veldt record-starts`"
            )
        if dict(source.kwargs) != dict(self.env_kwargs):
            raise UsageError(
                f"--starts {self.path} has starts of {self.env} with {dict(self.env_kwargs)}, and the run makes it "
                f"with {dict(source.kwargs)}: record starts of that"
            )
        for name in _DECISIVE if self.atari else ():
            if self.atari[name] != getattr(atari, name):
                raise UsageError(
                    f"--starts {self.path} was recorded with {flag(name)} {self.atari[name]}, and the run has "
                    f"{getattr(atari, name)}: the same actions lead elsewhere; record starts with the run's"
                )
        if self.atari and (longest := max(self.lengths)) >= atari.max_episode_steps:
            raise UsageError(
                f"--starts {self.path} has a start {longest:,} steps into a game, and the run's games end after "
                f"{atari.max_episode_steps:,} (--max-episode-steps): record shorter ones"
            )
        if any(not _takes(action, start.actions) for start in self.each):
            raise UsageError(
                f"--starts {self.path} has actions that {self.env} does not take: the environment has changed; record "
                "new starts"
            )


def read_starts(path: Path) -> Starts:
    """The starts in the file `path`; UsageError where it is none, is damaged or has none."""
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
        names = ("env", "env_kwargs", "atari", "made", "versions")
        starts = Starts(path=path, each=each, **{name: manifest[name] for name in names})
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"--starts {path} is no file of starts: {error}; record new ones") from error
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
    """Starts where the `beginnings` of games lead, each of them reached twice: by two envs, in opposite order.

    Args:
        timeout: seconds after which a step or reset counts as hung.

    Raises:
        UsageError: the second time it was another place, so that nobody could start there again.
        EnvError: the environment failed.
    """
    name, when = f"environment {source.name}", "when its starts were played again"
    what = f"{name} failed {when}"
    with (
        running(name, when) as record,
        as_error(EnvError, what),
        within(timeout, record.progress.tobytes, what, " (--env-timeout)"),
    ):
        there = _places(source, atari, beginnings, record)
        again = _places(source, atari, beginnings[::-1], record)[::-1]
    digests = [one for one, other in zip(there, again, strict=True) if one is not None and one == other]
    if len(digests) < len(beginnings):
        raise UsageError(
            f"{source.name} is not deterministic: the same seed and actions lead to another place when they are played "
            "again, so that no start in it can be kept"
        )
    decisive = {name: getattr(atari, name) for name in (*_DECISIVE, "no_ops")} if source.is_atari else {}
    return Starts(
        path=path,
        env=source.name,
        env_kwargs=dict(source.kwargs),
        atari=decisive,
        made=dict(made),
        versions=dict(versions),
        each=tuple(Start(*begun, digest) for begun, digest in zip(beginnings, digests, strict=True)),
    )


def check_numbers(starts: int, seed: int) -> None:
    """UsageError where no so many starts, or none of this seed, can be recorded."""
    if starts < 1:
        raise UsageError(f"--starts is {starts}: it must be at least 1")
    if seed < 0:
        raise UsageError(f"--seed is {seed}: it must be 0 or more")


def digest_of(state: bytes | None, observation: Sequence[np.ndarray], score: float) -> str:
    """Of a place in a game: the emulator's state, or where there is none what is seen; and the points so far."""
    seen = [state] if state is not None else [array.tobytes() for array in observation]
    digest = hashlib.sha256(struct.pack("<d", score))
    for part in seen:
        digest.update(part)
    return digest.hexdigest()


def draw_points(lengths: Sequence[int], rng: np.random.Generator) -> list[int]:
    """A point in each game, uniform over its `length` steps: the actions before it, 0 being the game's beginning."""
    return [int(rng.integers(0, length)) for length in lengths]


def _places(
    source: EnvSource, atari: AtariConfig, beginnings: Sequence[Beginning], record: Record
) -> list[str | None]:
    """Where they lead, see `_reached`."""
    env = make_step_env(source, atari)
    try:
        return [_reached(env, seed, actions, record) for seed, actions in beginnings]
    finally:
        env.close()


def _reached(env: StepEnv, seed: int, actions: np.ndarray, record: Record) -> str | None:
    """The digest of where the actions lead; None if the game is over before."""
    rows = [np.zeros((1, *field.shape), field.dtype) for field in env.spec.observation.values()]
    record.resets(seed)
    env.reset(seed, rows, 0)
    record.steps()
    score = 0.0
    for action in actions.tolist() if env.spec.action.kind == "discrete" else actions:
        reward, terminated, truncated, _ = env.step(action, rows, 0)
        record.progress[2] += 1
        score += float(np.float32(reward))  # as rows hold it
        if terminated or truncated:
            return None
    return digest_of(env.save(), [row[0] for row in rows], score)


def _takes(spec: ActionSpec, actions: np.ndarray) -> bool:
    """Whether stored actions [length, ...] are some of the action space."""
    if actions.shape[1:] != spec.shape or actions.dtype != spec.dtype:
        return False
    return spec.kind == "box" or bool(((actions >= 0) & (actions < np.array(spec.sizes))).all())
