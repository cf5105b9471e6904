"""The registry of sampling strategies: how a replay buffer draws its batches, by name. Without numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from veldt.errors import UsageError
from veldt.registry import Registry, registering_module


class SampledRing(Protocol):
    """Where the rows of B envs lie: row r of env b, counted from the env's first on, at the position b R + r mod R.

    Sampleable are the valid ones of the rows `first` up to `end` (not included) of each env.

    Attributes:
        rows: R.
        valid: bool [B, R], by position.
    """

    rows: int
    valid: np.ndarray

    @property
    def sampleable(self) -> int:
        """The number of sampleable rows."""

    @property
    def first(self) -> np.ndarray:
        """int64 [B]"""

    @property
    def end(self) -> np.ndarray:
        """int64 [B]"""


class SamplingStrategy:
    """Decides which stored rows are drawn, by their positions in the ring.

    Every replay buffer of a run has a strategy of its own: each learner's, or each shard's.

    Args:
        ring: the rows; read, never written.
        alpha: `--priority-exponent`.
    """

    uses_priorities: ClassVar[bool] = False
    """Whether `update` gets new priorities of sampled rows, which the algorithm's loss must then return. Of the class,
    not of an object."""

    def __init__(self, ring: SampledRing, alpha: float = 0.0) -> None:
        self.ring, self.alpha = ring, alpha

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of `count` (N) rows, int64 [N], and their masses, float64 [N], finite and above 0.

        Both are determined by `seed` (64 bits, not negative), the rows and the strategy's state. Masses are
        proportional to the probabilities of being drawn: the loss of a row is multiplied by its importance weight,
        (least mass of the batch / mass)^β. At least one row is sampleable. A row may be drawn several times.
        """
        raise NotImplementedError

    @property
    def mass(self) -> float:
        """The sum of the masses of all sampleable rows, of which there is at least one; finite and above 0.

        Shards are drawn from in proportion to it, and learners that share a batch divide their masses by it.
        """
        return float(self.ring.sampleable)

    def written(self, removed_M: np.ndarray, added_M: np.ndarray, priority_M: np.ndarray | None) -> None:
        """Is told that the rows at `removed_M` are no longer sampleable, and those at `added_M` are, int64 [M] each.

        The two have lengths of their own. A position may be in both: its new row has replaced the old one. `priority_M`
        float64 are the raw priorities that the added rows came with, as from actors (NaN: none); None if no row did.
        """

    def update(self, position_N: np.ndarray, priority_N: np.ndarray) -> None:
        """Gets new raw priorities, float64 [N], finite and 0 or more, of rows that are still sampleable.

        `position_N` int64 has a row as often as it was drawn.
        """

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a checkpoint needs besides the rows: arrays by name, of real numbers or True and False."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `state` returned, when the ring has its rows again; `written` is not told of these."""


@dataclass(frozen=True)
class StrategyEntry:
    """A strategy; `make` gets the ring and `--priority-exponent`."""

    make: Callable[[SampledRing, float], SamplingStrategy]
    uses_priorities: bool


STRATEGIES: Registry[StrategyEntry] = Registry("sampling strategy", "veldt.replay.builtin")


def register_sampling_strategy(name: str, strategy: type[SamplingStrategy]) -> None:
    """Makes a sampling strategy known by `name`, so that `--replay` and recipes can use it.

    Call it where a module of yours is imported, so that every process of a run that imports the module knows the
    strategy.

    Args:
        name: lower-case letters, digits and dashes.
        strategy: a subclass of `SamplingStrategy`.

    Raises:
        UsageError: the class is none, or does not define `sample`, its `uses_priorities` is neither True nor False, the
            name is none, or another module has registered a strategy of this name.
    """
    if not (isinstance(strategy, type) and issubclass(strategy, SamplingStrategy)):
        raise UsageError(
            f"the sampling strategy {name} is {strategy!r}: it must be a subclass of veldt.SamplingStrategy"
        )
    if strategy.sample is SamplingStrategy.sample:
        raise UsageError(
            f"the sampling strategy {name} is {strategy.__name__}, which does not define sample: do so"
        )
    if not isinstance(strategy.uses_priorities, bool):
        raise UsageError(
            f"uses_priorities of the sampling strategy {name} is {strategy.uses_priorities!r}: give the class "
            f"{strategy.__name__} True or False"
        )
    STRATEGIES.add(name, StrategyEntry(strategy, strategy.uses_priorities), registering_module())
