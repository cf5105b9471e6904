"""The slot into which envs write and from which the learner reads: `[T+1, B]`, preallocated, written once.

Row t holds the observation before step t; step t fills row t of everything else and the observation of row t+1. A row
is all there is to know: stepping is a function from row t to row t+1 (besides what the environments themselves hold).

    observation  [T+1, B, ...]   single frames where the network sees a stack: `stack - 1` rows of history come before
    age          [T+1, B] int32  steps since the episode's first observation (0 begins an episode)
    ended        [T+1, B] bool   the observation is an episode's last: the env needs a reset
    episode      [T+1, B] int64  number of the episode, by env
    action       [T, B, ...]     as the policy chose it (see `ActionSpec`)
    reward       [T, B] float32  raw, never clipped
    terminated, truncated, life_lost [T, B] bool
    cut          [T, B] bool     the env was restarted after this step: a trajectory's end, but no game's
    valid        [T, B] bool     False for the reset step that resets an env: no loss or return may use it
    version      [T, B] int64    policy version that chose the action
    stacks       [R, B, H, W, K] uint8, where asked for: the stack of frames of row t, at t % R, as networks take it

Stacks are made by whoever makes the row, so that the work is shared out as the envs are; R is T + 1 while that is
small (then they serve learning, too) and else 2: a row's, while the next is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.runtime.shared import Layout, SharedArrays

_KEEP_ALL = 32 * 2**20  # bytes of stacks; beyond, making them again costs no more than reading them

ROW_FIELDS = {"age": "int32", "ended": "bool", "episode": "int64"}
STEP_FLAGS = ("terminated", "truncated", "life_lost", "cut", "valid")


def row_layouts(spec: EnvSpec, steps: int, width: int) -> dict[str, Layout]:
    """The arrays of `Rows`."""
    rows = steps + 1
    layouts = {
        f"observation/{name}": Layout((spec.history + rows, width, *field.shape), field.dtype)
        for name, field in spec.observation.items()
    }
    layouts |= {name: Layout((rows, width), dtype) for name, dtype in ROW_FIELDS.items()}
    # Side by side in the order of STEP_FLAGS, so that one assignment clears them all: for a small environment that is
    # much of a step's cost.
    layouts["flags"] = Layout((steps, len(STEP_FLAGS), width), "bool")
    layouts["action"] = Layout((steps, width, *spec.action.shape), spec.action.dtype)
    return layouts | {"reward": Layout((steps, width), "float32"), "version": Layout((steps, width), "int64")}


class Rows:
    """A slot's rows and steps, by the names of the module's text. `steps` is T, `width` is B.

    They are all that whoever stores a slot or learns from it has to know, and may be copies that came from elsewhere.

    Args:
        arrays: by the names of `row_layouts`; others may be among them.
    """

    def __init__(self, spec: EnvSpec, arrays: Mapping[str, np.ndarray] | SharedArrays) -> None:
        self.spec, self.history = spec, spec.history
        self.observation = {name: arrays[f"observation/{name}"] for name in spec.observation}
        self.age, self.ended, self.episode = arrays["age"], arrays["ended"], arrays["episode"]
        self.action, self.reward, self.version = (arrays[name] for name in ("action", "reward", "version"))
        self.flags = arrays["flags"]
        self.terminated, self.truncated, self.life_lost, self.cut, self.valid = self.flags.swapaxes(0, 1)
        self.steps, self.width = self.reward.shape

    def part(self, part: slice) -> Rows:
        """The same rows of these envs alone: views."""
        arrays = {f"observation/{name}": array[:, part] for name, array in self.observation.items()}
        arrays |= {
            name: getattr(self, name)[:, part] for name in (*ROW_FIELDS, "action", "reward", "version")
        }
        return Rows(self.spec, arrays | {"flags": self.flags[:, :, part]})

    def copy_to(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copies everything into arrays of the same layouts."""
        for name, array in self.observation.items():
            np.copyto(arrays[f"observation/{name}"], array)
        for name in (*ROW_FIELDS, "flags", "action", "reward", "version"):
            np.copyto(arrays[name], getattr(self, name))


class Trajectory(Rows):
    """See the module's text. `restarts` int64 [B] counts restarts since the start.

    Envs that are reset in the pause put their observations into `fresh` and their episodes into `fresh_episode`
    int64 [B], until the rows may change.

    Args:
        stacks: whether stacks are made here, and not on the device of the network (on a GPU).
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
        """The observation arrays of row `t`, envs `part`: views to write to, one a field."""
        return [array[self.history + t, part] for array in self.observation.values()]

    def stack(self, t: int, part: slice) -> None:
        """Makes the stacks of row `t`, envs `part`, from its frames."""
        for name, array in self.stacks.items():
            from veldt.envs.stacks import slot_frames, write_stacks

            field = self.spec.observation[name]
            frames = self.observation[name][self.history - field.stack + 1 :].reshape(-1, *field.shape)
            row_N = np.arange(t * self.width + part.start, t * self.width + part.stop)
            frame_NK = slot_frames(self.age, row_N, field.stack)
            write_stacks(frames, frame_NK[None], array[t % len(array), part][None])

    def carry_over(self, part: slice = slice(None)) -> None:
        """Makes the last row (with its history) the first: the next batch begins where this one ended.

        `part` are the envs of which it has ended; by default, all.
        """
        for array in self.observation.values():
            array[: self.history + 1, part] = array[self.steps :, part]
        for array in (self.age, self.ended, self.episode):
            array[0, part] = array[self.steps, part]
        for array in self.stacks.values():
            array[0, part] = array[self.steps % len(array), part]

    def finish_resets(self) -> None:
        """Puts the observations of envs that were reset in the pause into the first row."""
        ended = np.flatnonzero(self.ended[0])
        for name, array in self.observation.items():
            array[self.history, ended] = self.fresh[name][ended]
        self.age[0, ended], self.ended[0, ended] = 0, False
        self.episode[0, ended] = self.fresh_episode[ended]
        for b in ended:
            self.stack(0, slice(b, b + 1))
