"""The spec of an env: arrays of observations and actions with a declared shape and dtype, for any space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from veldt.errors import UsageError


@dataclass(frozen=True)
class ArraySpec:
    """One array of an observation.

    `shape` is what an env writes at each step. With `stack > 1` the network sees the last `stack` of them along a new
    first axis (single frames are stored, stacks are made when they are used). `is_box` says that the numbers are those
    of a Box; else they are one-hot or flattened values of another space. `largest` is the largest absolute number
    within the bounds of that Box; infinite if there is none.
    """

    shape: tuple[int, ...]
    dtype: str
    stack: int = 1
    is_box: bool = True
    largest: float = math.inf

    @property
    def network_shape(self) -> tuple[int, ...]:
        return (self.stack, *self.shape) if self.stack > 1 else self.shape


@dataclass(frozen=True)
class ActionSpec:
    """An action as the policy chooses it.

    `kind` is "discrete" (an index), "multi" (one index per dimension) or "box" (real numbers). Stored arrays are int64
    `[]`, int64 `[D]` and float32 `[D]`. In a box, -1 and 1 stand for the bounds; with one finite bound the unit is 1,
    and with none a stored number is the action itself. Values outside are clipped before they go to the environment,
    and rounded where it takes integers.
    """

    kind: str
    sizes: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    env_shape: tuple[int, ...] = ()
    env_dtype: str = "int64"

    @property
    def shape(self) -> tuple[int, ...]:
        if self.kind == "discrete":
            return ()
        return (len(self.sizes),) if self.kind == "multi" else (len(self.low),)

    @property
    def in_words(self) -> str:
        """The kind, with the numbers of choices or the shape, as a sentence names them."""
        if self.kind == "box":
            return f"box {list(self.env_shape)}"
        return f"{self.kind} of {', '.join(map(str, self.sizes))} choices"

    @property
    def dtype(self) -> str:
        return "float32" if self.kind == "box" else "int64"

    def to_env(self, action: Any) -> Any:
        """Converts one stored action to the environment's action space."""
        if self.kind == "discrete":
            return int(action) + self.start[0]
        if self.kind == "multi":
            return (np.asarray(action) + self._start).astype(self.env_dtype).reshape(self.env_shape)
        scaled = self.centre + self.half_range * np.asarray(action, np.float64)
        clipped = np.clip(scaled, *self.limits)
        whole = np.rint(clipped) if self.takes_integers else clipped
        return whole.astype(self.env_dtype).reshape(self.env_shape)

    def contains(self, actions: np.ndarray) -> bool:
        """Whether stored actions [length, *shape] belong to the action space."""
        if actions.shape[1:] != self.shape or actions.dtype != self.dtype:
            return False
        return self.kind == "box" or bool(((actions >= 0) & (actions < np.array(self.sizes))).all())

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns `count` uniformly random stored actions, [count, *shape]."""
        if self.kind == "box":
            return rng.uniform(-1.0, 1.0, (count, *self.shape)).astype(np.float32)
        return rng.integers(0, self.sizes if self.kind == "multi" else self.sizes[0], (count, *self.shape))

    @cached_property
    def num_choices(self) -> np.ndarray:
        """The number of choices: uint64 [] or, with several dimensions, [D]."""
        return np.array(self.sizes[0] if self.kind == "discrete" else self.sizes, np.uint64)

    @cached_property
    def _start(self) -> np.ndarray:
        return np.array(self.start)

    @cached_property
    def _low(self) -> np.ndarray:
        return np.array(self.low)

    @cached_property
    def _high(self) -> np.ndarray:
        return np.array(self.high)

    @property
    def is_bounded(self) -> bool:
        """Whether all bounds of a box are finite."""
        return bool(np.isfinite((self._low, self._high)).all())

    @cached_property
    def takes_integers(self) -> bool:
        """Whether the environment takes integers (or booleans)."""
        return np.dtype(self.env_dtype).kind in "iub"

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest box action, float64 [D] each: the bounds, or the limits of a type of integers."""
        if not self.takes_integers:
            return self._low, self._high
        least, most = (0, 1) if self.env_dtype == "bool" else _whole_limits(np.iinfo(self.env_dtype))
        return np.maximum(self._low, least), np.minimum(self._high, most)

    @property
    def centre(self) -> np.ndarray:
        """The box action for which 0 stands, float64 [D]."""
        return self._scale[0]

    @property
    def half_range(self) -> np.ndarray:
        """How far the box action moves for 1, float64 [D]."""
        return self._scale[1]

    @cached_property
    def _scale(self) -> tuple[np.ndarray, np.ndarray]:
        is_open_below, is_open_above = np.isinf(self._low), np.isinf(self._high)
        # What -1 and 1 stand for.
        minus = np.where(is_open_below, np.where(is_open_above, -1.0, self._high - 2.0), self._low)
        plus = np.where(is_open_above, np.where(is_open_below, 1.0, self._low + 2.0), self._high)
        return (minus + plus) / 2, (plus - minus) / 2


@dataclass(frozen=True)
class EnvSpec:
    """The spec of one environment: `observation` by field name (a single "" unless it is a Dict), and `action`.

    `normalising_wrappers` are the names of the wrappers of the environment that keep running statistics.
    """

    observation: Mapping[str, ArraySpec]
    action: ActionSpec
    frames_per_step: int = 1
    normalising_wrappers: tuple[str, ...] = ()

    @property
    def is_dict(self) -> bool:
        return "" not in self.observation

    @property
    def observation_shape(self) -> Any:
        """The shape of one observation as a network gets it; for a Dict, a dictionary of the fields' shapes."""
        shapes = {name: field.network_shape for name, field in self.observation.items()}
        return shapes if self.is_dict else shapes[""]

    def difference(self, other: EnvSpec) -> str | None:
        """Returns how the spaces of `other` differ in the arrays of rows and the choices of a policy, or None.

        Bounds may differ: each env scales actions to its own.
        """
        for what, mine, others in (
            ("observations", _in_words(self.observation), _in_words(other.observation)),
            ("actions", self.action.in_words, other.action.in_words),
        ):
            if mine != others:
                return f"its {what} are {others}, and those of an earlier one are {mine}"
        return None

    @property
    def history(self) -> int:
        """Maximum number of earlier frames in a row's stack."""
        return max(field.stack for field in self.observation.values()) - 1


def _in_words(observation: Mapping[str, ArraySpec]) -> str:
    fields = (f"{name} {field.dtype} {list(field.shape)}".lstrip() for name, field in observation.items())
    return ", ".join(fields)


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """Returns the spec of an action space; UsageError for a space that is not supported."""
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box) and not math.prod(
        space.shape
    ):
        raise UsageError(
            f"the action space {space} has no dimension to choose in (shape {space.shape}): give it at least one; an "
            "environment without choices can have gymnasium.spaces.Discrete(1)"
        )
    if isinstance(space, spaces.Discrete):
        return ActionSpec("discrete", sizes=(int(space.n),), start=(int(space.start),))
    if isinstance(space, spaces.MultiDiscrete):
        return ActionSpec(
            "multi",
            sizes=tuple(int(n) for n in space.nvec.flatten()),
            start=tuple(int(n) for n in space.start.flatten()),
            env_shape=space.shape,
            env_dtype=str(space.dtype),
        )
    if isinstance(space, spaces.MultiBinary):
        size = math.prod(space.shape)
        return ActionSpec(
            "multi", sizes=(2,) * size, start=(0,) * size, env_shape=space.shape, env_dtype=str(space.dtype)
        )
    if isinstance(space, spaces.Box):
        return ActionSpec(
            "box",
            low=_bounds(space.low, space.bounded_below),
            high=_bounds(space.high, space.bounded_above),
            env_shape=space.shape,
            env_dtype=str(space.dtype),
        )
    raise UsageError(
        f"the action space {space} is not supported: allowed are Discrete, MultiDiscrete, MultiBinary and Box; "
        "wrap the environment so that its actions are one of these (gymnasium.wrappers.TransformAction)"
    )


def _whole_limits(of_type: np.iinfo[Any]) -> tuple[float, float]:
    """The least and the largest number of float64 that the type has: the limit of int64 would be rounded up."""
    most = float(of_type.max)
    return float(of_type.min), most if int(most) <= of_type.max else float(np.nextafter(most, 0.0))


def _bounds(numbers: np.ndarray, are_bounds: np.ndarray) -> tuple[float, ...]:
    """The bounds of a box in one direction; infinite where the number only says that there is none.

    Gymnasium writes the limits of an integer's type for an infinite bound, and environments those of a float's.
    """
    if np.issubdtype(numbers.dtype, np.integer):
        limits = np.iinfo(numbers.dtype)
        are_limits = np.isin(numbers, (limits.min, limits.max)) & (numbers != 0) & (limits.bits >= 32)
    else:
        are_limits = np.abs(numbers) >= np.finfo(np.float32).max
    signs = np.where(numbers < 0, -np.inf, np.inf)
    return tuple(np.where(are_bounds & ~are_limits, numbers.astype(np.float64), signs).flatten().tolist())
