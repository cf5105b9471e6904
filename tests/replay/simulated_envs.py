"""Simulated histories of envs: the slots that they fill, and all their steps, for a naive buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory

ACTION = ActionSpec("discrete", sizes=(5,), start=(0,))
FRAMES = EnvSpec({"": ArraySpec((3, 2), "uint8", 3)}, ACTION)
FOUR_FRAMES = EnvSpec({"": ArraySpec((3, 5), "uint8", 4)}, ACTION)
VECTOR = EnvSpec({"": ArraySpec((3,), "float32")}, ACTION)
SEVERAL = EnvSpec(
    {
        "camera": ArraySpec((3, 2), "uint8", 4),
        "map": ArraySpec((2, 2), "uint8"),
        "near": ArraySpec((2, 3), "uint8", 2),
        "speed": ArraySpec((2,), "float32"),
    },
    ActionSpec("box", low=(-1.0, -1.0), high=(1.0, 1.0), env_shape=(2,), env_dtype="float32"),
)
SPECS = [FRAMES, FOUR_FRAMES, VECTOR, SEVERAL]


@dataclass
class RecordedStep:
    """One step: `number` is its own (the slot has it for a version); the episode goes on in the next entry."""

    number: int
    episode: int
    episode_step: int
    action: np.ndarray
    reward: float
    terminated: bool
    life_lost: bool


@dataclass
class Life:
    """An env's rows as a buffer should have them: steps, and None for an observation that no step follows."""

    rows: list[RecordedStep | None] = field(default_factory=list)
    episode: int = 0
    episode_step: int = 0
    is_last: bool = False
    stepped: bool = False  # in the present episode, of which the buffer has a step

    def close(self) -> None:
        """The episode is over, for whatever reason, and its last observation is to be kept."""
        if self.stepped:
            self.rows.append(None)
        self.stepped = False

    def begin(self) -> None:
        self.episode, self.episode_step, self.is_last = self.episode + 1, 0, False


class SimulatedEnvs:
    """Envs that live at random; `slots` yields each slot when it is full, and goes on from it afterwards."""

    def __init__(self, spec: EnvSpec, steps: int, width: int, waits: bool, seed: int) -> None:
        self.spec, self.waits, self.seed = spec, waits, seed
        self.slot = Trajectory(spec, steps, width, None)
        self.lives = [Life() for _ in range(width)]
        self._rng = np.random.default_rng(seed)
        self._number = 0
        self._seen: dict[tuple[str, int, int, int], np.ndarray] = {}

    def observation(self, name: str, b: int, episode: int, episode_step: int) -> np.ndarray:
        """Never 0, so that it is not taken for a blank."""
        place = (name, b, episode, episode_step)
        if place not in self._seen:
            array = self.spec.observation[name]
            rng = np.random.default_rng([self.seed, sum(name.encode()), b, episode, episode_step])
            self._seen[place] = rng.integers(1, 256, array.shape).astype(array.dtype)
        return self._seen[place]

    def slots(self, count: int) -> Iterator[Trajectory]:
        slot = self.slot
        for b, life in enumerate(self.lives):
            life.episode_step = int(self._rng.integers(0, 6))  # random steps at the start
            for back in range(slot.history + 1):
                if back <= life.episode_step:
                    self._observe(slot.history - back, b, life.episode_step - back)
            life.rows += [None] * min(life.episode_step, slot.history)
            slot.episode_step[0, b] = life.episode_step
        for _ in range(count):
            for t in range(slot.steps):
                for b in range(slot.width):
                    self._step(t, b)
            for life in self.lives:
                if life.is_last:
                    life.close()
            yield slot
            slot.start_next_rollout()
            for b, life in enumerate(self.lives):
                # Waiting ones are reset in the pause; another may have been given up in it, without a step's saying so.
                if (self.waits and life.is_last) or (life.stepped and self._rng.random() < 0.05):
                    life.close()
                    life.begin()
                    self._write_row(0, b)

    def _step(self, t: int, b: int) -> None:
        slot, life = self.slot, self.lives[b]
        chance = self._rng.random()
        failed = not life.is_last and chance < 0.05
        slot.reward[t, b] = 0.0
        slot.flags[t, :, b] = False
        if life.is_last or failed:
            # The reset step: resets, or stands still until the slot is full.
            life.close()
            if failed and t > 0 and slot.valid[t - 1, b]:
                slot.interrupted[t - 1, b] = True
            if failed or not self.waits:
                life.begin()
        else:
            slot.valid[t, b] = True
            slot.terminated[t, b] = chance > 0.9
            slot.truncated[t, b] = 0.8 < chance <= 0.9
            slot.life_lost[t, b] = 0.6 < chance <= 0.8
            slot.reward[t, b] = self._rng.normal()
            slot.action[t, b] = self.spec.action.sample(self._rng, 1)[0]
            slot.version[t, b] = self._number
            life.rows.append(
                RecordedStep(
                    self._number,
                    life.episode,
                    life.episode_step,
                    slot.action[t, b].copy(),
                    float(slot.reward[t, b]),
                    bool(slot.terminated[t, b]),
                    bool(slot.life_lost[t, b]),
                )
            )
            self._number += 1
            life.episode_step, life.stepped, life.is_last = life.episode_step + 1, True, chance > 0.8
        self._write_row(t + 1, b)

    def _write_row(self, t: int, b: int) -> None:
        slot, life = self.slot, self.lives[b]
        slot.episode_step[t, b], slot.is_last[t, b] = life.episode_step, life.is_last
        self._observe(slot.history + t, b, life.episode_step)

    def _observe(self, row: int, b: int, episode_step: int) -> None:
        for name, array in self.slot.observation.items():
            array[row, b] = self.observation(name, b, self.lives[b].episode, episode_step)
