"""One env with rendering, for videos and playing by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.step_env import make_step_env
from veldt.errors import EnvError, as_error
from veldt.runtime.activity import Record
from veldt.runtime.watchdog import time_to_close

_FPS, _ATARI_FPS = 30.0, 60.0


class RenderedEnv:
    """An env that renders. Its failures are raised as EnvError with the env's name, the seed and the step.

    `steps_per_second` is the speed at which it is shown, with a picture for each step; Atari's is that of the console.

    Raises:
        UsageError: the env does not support rendering.
        EnvError: the env's constructor failed.
    """

    def __init__(self, source: EnvSource, atari: AtariConfig) -> None:
        self._name = f"environment {source.name}"
        self._record = Record(self._name)
        try:
            with self._named("could not be made"):
                self._env = make_step_env(source, atari, render=True)
        except BaseException:
            self._record.close()
            raise
        self.spec = self._env.spec
        self.steps_per_second = _ATARI_FPS / self.spec.frames_per_step if source.is_atari else _FPS
        self._steps = 0

    def reset(self, seed: int, rows: list[np.ndarray], index: int) -> None:
        self._record.resets(seed)
        with self._named(f"(seed {seed}) failed to reset"):
            self._env.reset(seed, rows, index)
        self._record.steps()
        self._seed, self._steps = seed, 0

    def step(self, action: Any, rows: list[np.ndarray], index: int) -> tuple[float, bool, bool, bool]:
        with self._named(f"(seed {self._seed}) failed in step {self._steps}"):
            result = self._env.step(action, rows, index)
        self._steps += 1
        self._record.progress[2] = self._steps
        return result

    def save(self) -> bytes | None:
        return self._env.save()

    def restore(self, state: bytes) -> None:
        self._env.restore(state)

    def render(self) -> np.ndarray:
        with self._named(f"(seed {self._seed}) could not be drawn before step {self._steps}"):
            return self._env.render()

    def action_names(self) -> list[str]:
        return self._env.action_names()

    def close(self) -> None:
        self._record.closes()
        try:
            with self._named("failed when it was closed"), time_to_close(self._name):
                self._env.close()
        finally:
            self._record.close()

    @contextlib.contextmanager
    def _named(self, what: str) -> Iterator[None]:
        self._record.busy[0] = 1
        try:
            with as_error(EnvError, f"{self._name} {what}"):
                yield
        finally:
            self._record.busy[0] = 0
