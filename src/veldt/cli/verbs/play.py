"""Records human starts (Nair et al. 2015): a person plays, and random points of these episodes become starts."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from veldt.config.plugins import read_run_config
from veldt.config.run_code import CodeChoice, admit
from veldt.config.versions import versions_for_env
from veldt.envs.seeding import EVALUATION, derive_seed
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.step_env import StepEnv
from veldt.errors import UsageError
from veldt.evaluation.rendered_env import RenderedEnv
from veldt.evaluation.starts import Beginning, Starts, check_numbers, make_starts
from veldt.evaluation.starts_file import STARTS_NAME, check_new_file
from veldt.evaluation.window import Window
from veldt.runs.directory import RunDirectory

_EPISODES, _POINTS = 3, 4  # purposes of seeds: episodes that no agent plays in evaluation
_PARTS = re.compile("UP|DOWN|LEFT|RIGHT|FIRE")


class Screen(Protocol):
    """Shows the env to a person, and reads the keys."""

    def show(self, picture: np.ndarray, title: str) -> frozenset[str] | None:
        """Shows a picture for the duration of a step; returns the keys held then, None to end."""


def record(
    run: Path | None, env: str | None, starts: int, out: Path | None, seed: int, trust: bool = False
) -> Starts:
    """Writes starts from episodes that a person plays now, until the window is closed.

    Args:
        run: the run whose environment is played, with its settings.
        env: the environment that is played instead of the run's; with default settings where there is no run.
        starts: how many to record, at most one for each step played.
        out: the new file; None: starts.safetensors in the run, or without a run in the current directory.
        seed: fixes the episodes and the points drawn in them.
        trust: as for `veldt.load`.

    Raises:
        UsageError: there is no screen or no such run, a person cannot play this env or has played too little; or as
            for `veldt.load`.
        EnvError: the environment failed.
    """
    check_numbers(starts, seed)
    atari, timeout = AtariConfig(), EnvConfig().env_timeout
    if run is not None:
        directory = RunDirectory.open(run).path
        config = read_run_config(directory, RunDirectory.open(run).read_config()["resolved"], trust)
        source = admit(
            directory, config, CodeChoice(env, trust=trust), "record_starts(run, {})", policy=False
        ).source
        atari, timeout = config.atari, config.envs.env_timeout
    else:
        assert env is not None
        directory, source = Path(), resolve(env)
    path = directory / STARTS_NAME if out is None else out
    check_new_file(path)
    step_env = RenderedEnv(source, atari)
    try:
        if step_env.spec.action.kind != "discrete":
            raise UsageError(
                f"a person plays with keys, and {source.name} takes numbers: its action space is not Discrete"
            )
        window = Window(step_env.steps_per_second)
        try:
            seeds = (derive_seed(seed, EVALUATION, _EPISODES, episode) for episode in itertools.count())
            episodes = play(step_env, window, seeds)
        finally:
            window.close()
    finally:
        step_env.close()
    beginnings = draw(episodes, starts, np.random.default_rng(derive_seed(seed, EVALUATION, _POINTS)))
    made = {"by": "person", "episodes": len(episodes), "steps": sum(len(actions) for _, actions in episodes)}
    recorded = make_starts(
        path,
        source,
        atari,
        beginnings,
        made=made,
        versions=versions_for_env(source.name, source.kwargs),
        timeout=timeout,
    )
    recorded.write()
    return recorded


def play(step_env: StepEnv, screen: Screen, seeds: Iterator[int]) -> list[Beginning]:
    """Lets a person play one episode after another until they end it; returns the episodes, the last one unfinished.

    Ctrl-C ends, too; the steps up to then are returned.
    """
    rows = [np.zeros((1, *field.shape), field.dtype) for field in step_env.spec.observation.values()]
    names, count = step_env.action_names(), step_env.spec.action.sizes[0]
    episodes: list[tuple[int, list[int]]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for seed in seeds:
            step_env.reset(seed, rows, 0)
            episodes.append((seed, []))
            score, over = 0.0, False
            while not over:
                title = f"episode {len(episodes)} · score {score:g} · Esc ends"
                held = screen.show(step_env.render(), title)
                if held is None:
                    raise KeyboardInterrupt
                action = action_of(held, names, count)
                reward, terminated, truncated, _ = step_env.step(action, rows, 0)
                episodes[-1][1].append(action)
                score, over = score + float(reward), terminated or truncated
    return [(seed, np.array(actions, np.int64)) for seed, actions in episodes]


def action_of(held: frozenset[str], names: list[str], count: int) -> int:
    """Returns the action for the held keys: by the words in its name (UPRIGHTFIRE), or by number where it has no name.

    Among named actions it is the one with the most held keys and no key that is not held; among numbered ones it is the
    first where no key is held.
    """
    if not names:
        return min((int(key) for key in held if key.isdigit() and int(key) < count), default=0)
    parts = [frozenset(_PARTS.findall(name)) for name in names]
    meant = [index for index in range(count) if parts[index] <= held]
    return max(meant, key=lambda index: len(parts[index]), default=0)


def draw(episodes: list[Beginning], starts: int, rng: np.random.Generator) -> list[Beginning]:
    """Returns beginnings that end at points drawn uniformly, without repetition, over all steps of the episodes.

    If fewer steps than `starts` were played, every step becomes a start.
    """
    ends = np.cumsum([len(actions) for _, actions in episodes])
    steps = int(ends[-1]) if len(ends) else 0
    if not steps:
        raise UsageError("you played no step, and starts are recorded from what you play: play longer")
    beginnings = []
    for point in np.sort(rng.choice(steps, min(steps, starts), replace=False)):
        episode = int(np.searchsorted(ends, point, side="right"))
        seed, actions = episodes[episode]
        beginnings.append((seed, actions[: int(point) - int(ends[episode]) + len(actions)]))
    return beginnings
