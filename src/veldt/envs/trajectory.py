"""The slot into which envs write and from which the learner reads: `[T+1, B]`, preallocated, written once.

Row t holds the observation before step t; step t fills row t of all other arrays and the observation of row t+1.
Besides the environments' own state, step t depends on row t alone.

    observation  [T+1, B, ...]   single frames where the network sees a stack: `stack - 1` rows of history come before
    episode_step [T+1, B] int32  steps since the episode's first observation (0 begins an episode)
    is_last      [T+1, B] bool   the observation is an episode's last: the env needs a reset
    episode      [T+1, B] int64  number of the episode, by env
    action       [T, B, ...]     as the policy chose it (see `ActionSpec`)
    reward       [T, B] float32  raw, never clipped
    terminated, truncated, life_lost [T, B] bool
    interrupted  [T, B] bool     the env was restarted after this step: the trajectory ends, the episode does not count
    valid        [T, B] bool     False for reset steps: no loss or return may use them
    version      [T, B] int64    policy version that chose the action
    stacks       [R, B, H, W, K] uint8, optional: the stack of frames of row t, at t % R, in the networks' layout

The process that fills a row also makes its stacks, so that this work is divided as the envs are. R is T + 1 if all
stacks are small enough (then learning uses them, too), else 2: the current row and the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.runtime.shared import Layout, SharedArrays

_KEEP_ALL = 32 * 2**20  # bytes of stacks; for more, making stacks again costs no more than reading them

ROW_FIELDS = {"episode_step": "int32", "is_last": "bool", "episode": "int64"}
STEP_FLAGS = ("terminated", "truncated", "life_lost", "interrupted", "valid")
_ORDINARY = np.array([[name == "valid"] for name in STEP_FLAGS])  # the flags of an ordinary step


def row_layouts(spec: EnvSpec, steps: int, width: int) -> dict[str, Layout]:
    """Returns the layouts of the arrays of `Rows`."""
    rows = steps + 1
    layouts = {
        f"observation/{name}": Layout((spec.history + rows, width, *field.shape), field.dtype)
        for name, field in spec.observation.items()
    }
    layouts |= {name: Layout((rows, width), dtype) for name, dtype in ROW_FIELDS.items()}
    # Side by side in the order of STEP_FLAGS, so that one assignment clears them all: for a small environment this is a
    # large part of a step's cost.
    layouts["flags"] = Layout((steps, len(STEP_FLAGS), width), "bool")
    layouts["action"] = Layout((steps, width, *spec.action.shape), spec.action.dtype)
    return layouts | {"reward": Layout((steps, width), "float32"), "version": Layout((steps, width), "int64")}


class Rows:
    """A slot's rows and steps; see the module's docstring for the arrays. `steps` is T, `width` is B.

    These arrays are all that a replay buffer or a learner needs; they may be copies from another process.

    Args:
        arrays: by the names of `row_layouts`; other arrays are ignored.
    """

    def __init__(self, spec: EnvSpec, arrays: Mapping[str, np.ndarray] | SharedArrays) -> None:
        self.spec, self.history = spec, spec.history
        self.observation = {name: arrays[f"observation/{name}"] for name in spec.observation}
        self.episode_step, self.is_last, self.episode = (
            arrays["episode_step"],
            arrays["is_last"],
            arrays["episode"],
        )
        self.action, self.reward, self.version = (arrays[name] for name in ("action", "reward", "version"))
        self.flags = arrays["flags"]
        self.terminated, self.truncated, self.life_lost, self.interrupted, self.valid = self.flags.swapaxes(
            0, 1
        )
        self.steps, self.width = self.reward.shape

    def part(self, part: slice) -> Rows:
        """Returns views of the same rows for the envs `part`."""
        arrays = {f"observation/{name}": array[:, part] for name, array in self.observation.items()}
        arrays |= {
            name: getattr(self, name)[:, part] for name in (*ROW_FIELDS, "action", "reward", "version")
        }
        return Rows(self.spec, arrays | {"flags": self.flags[:, :, part]})

    def copy_to(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copies all arrays into arrays of the same layouts."""
        for name, array in self.observation.items():
            np.copyto(arrays[f"observation/{name}"], array)
        for name in (*ROW_FIELDS, "flags", "action", "reward", "version"):
            np.copyto(arrays[name], getattr(self, name))


class Trajectory(Rows):
    """See the module's docstring. `restarts` int64 [B] counts restarts since the start.

    Resets in the optimisation pause write their observations to `fresh` and their episodes to `fresh_episode` int64
    [B]; `finish_resets` then copies them to the rows.

    Args:
        stacks: whether stacks are made here, and not on the network's device (a GPU).
    """

    def __init__(
        self,
        spec: EnvSpec,
        steps: int,
        width: int,
        context: BaseContext | None,
        stacks: bool = False,
    ) -> None:
        self.spec = spec
        rows = steps + 1
        layouts = row_layouts(spec, steps, width)
        for name, field in spec.observation.items():
            layouts[f"fresh/{name}"] = Layout((width, *field.shape), field.dtype)
        layouts |= {name: Layout((width,), "int64") for name in ("restarts", "fresh_episode")}
        stacked = [name for name, field in spec.observation.items() if field.stack > 1 and stacks]
        for name in stacked:
            field = spec.observation[name]
            row = Layout((width, *field.shape, field.stack), "uint8")
            depth = rows if rows * row.nbytes <= _KEEP_ALL else 2
            layouts[f"stacks/{name}"] = Layout((depth, *row.shape), row.dtype)
        self._stacked = tuple(stacked)
        self._arrays = SharedArrays(layouts, context)
        self._name_arrays()

    def _name_arrays(self) -> None:
        super().__init__(self.spec, self._arrays)
        self.fresh = {name: self._arrays[f"fresh/{name}"] for name in self.spec.observation}
        self.stacks = {name: self._arrays[f"stacks/{name}"] for name in self._stacked}
        self.restarts, self.fresh_episode = self._arrays["restarts"], self._arrays["fresh_episode"]

    def __getstate__(self) -> dict[str, Any]:
        names = ("spec", "_stacked", "_arrays")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_arrays()

    def rows(self, t: int, part: slice) -> list[np.ndarray]:
        """Returns writable views of the observation arrays of row `t` for the envs `part`, one per field."""
        return [array[self.history + t, part] for array in self.observation.values()]

    def step_rows(self, t: int, part: slice) -> StepRows:
        """Returns the views of step `t` for the envs `part`."""
        observation = self.rows(t + 1, part)
        return StepRows(
            flags=self.flags[t, :, part],
            is_last=self.is_last[t, part],
            episode_step=self.episode_step[t, part],
            episode=self.episode[t, part],
            action=self.action[t, part],
            reward=self.reward[t, part],
            next_is_last=self.is_last[t + 1, part],
            next_episode_step=self.episode_step[t + 1, part],
            next_episode=self.episode[t + 1, part],
            next_observation=observation,
            next_floats=[row.reshape(-1) for row in observation if row.dtype == np.float32],
        )

    def stack(self, t: int, part: slice) -> None:
        """Makes the stacks of row `t` from its frames, for the envs `part`."""
        for name, array in self.stacks.items():
            from veldt.envs.stacks import slot_frames, write_stacks

            field = self.spec.observation[name]
            frames = self.observation[name][self.history - field.stack + 1 :].reshape(-1, *field.shape)
            row_N = np.arange(t * self.width + part.start, t * self.width + part.stop)
            frame_NK = slot_frames(self.episode_step, row_N, field.stack)
            write_stacks(frames, frame_NK[None], array[t % len(array), part][None])

    def start_next_rollout(self, part: slice = slice(None)) -> None:
        """Copies the last row (with its history) to the first: the next rollout begins where this one ended.

        `part` are the envs whose rollout has ended; by default, all.
        """
        for array in self.observation.values():
            array[: self.history + 1, part] = array[self.steps :, part]
        for array in (self.episode_step, self.is_last, self.episode):
            array[0, part] = array[self.steps, part]
        for array in self.stacks.values():
            array[0, part] = array[self.steps % len(array), part]

    def finish_resets(self) -> None:
        """Copies the observations of envs that were reset in the pause into the first row."""
        ended = np.flatnonzero(self.is_last[0])
        for name, array in self.observation.items():
            array[self.history, ended] = self.fresh[name][ended]
        self.episode_step[0, ended], self.is_last[0, ended] = 0, False
        self.episode[0, ended] = self.fresh_episode[ended]
        for b in ended:
            self.stack(0, slice(b, b + 1))


class StepRows(NamedTuple):
    """Row t and row t + 1 of a slot for a slice of envs; sliced once and not at every step."""

    flags: np.ndarray
    is_last: np.ndarray
    episode_step: np.ndarray
    episode: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_is_last: np.ndarray
    next_episode_step: np.ndarray
    next_episode: np.ndarray
    next_observation: list[np.ndarray]
    next_floats: list[np.ndarray]  # float fields, flattened: these may hold NaN

    def clear(self) -> None:
        """Sets the rows to an ordinary step of every env, before the envs are stepped."""
        self.flags[...] = _ORDINARY
        np.add(self.episode_step, 1, out=self.next_episode_step)
        self.next_is_last.fill(False)
        self.next_episode[...] = self.episode
