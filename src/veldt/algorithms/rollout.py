"""What an algorithm is given to learn from, and what it makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from veldt.networks.recurrent import Forward, RecurrentForward

Observation = Tensor | dict[str, Tensor]


class Observations(Protocol):
    """The observations of a rollout, assembled (stacked, moved to the device) only when they are asked for."""

    def rows(self, index_N: Tensor | None) -> Observation:
        """Observations of rows n = t B + b, int64 [N]; None means all T B of them in order."""

    def last(self) -> Observation:
        """The B observations after the last step."""


@dataclass(frozen=True)
class RecurrentRollout:
    """What a policy with an LSTM remembered while it acted; see `networks.recurrent`.

    `first_BM` and `last_BM`, float32, are before the first row and before the one after the last step; `begins_SB`,
    bool [T+1, B], are the observations that begin an episode, at which all is forgotten. Whoever learns with other
    parameters than those that acted goes through all rows again, and has no use for `last_BM`.
    """

    first_BM: Tensor
    begins_SB: Tensor
    last_BM: Tensor | None = None


def unroll_forward(forward: Forward, memory: RecurrentRollout | None) -> Forward:
    """The forward pass for the T B rows of a rollout, and then for the B after them, in this order."""
    return forward if memory is None else RecurrentForward(forward, memory.first_BM, memory.begins_SB)


def bootstrap_forward(forward: Forward, memory: RecurrentRollout | None) -> Forward:
    """The forward pass for the B rows after a rollout that has just been sampled."""
    if memory is None or memory.last_BM is None:
        return forward
    return RecurrentForward(forward, memory.last_BM, memory.begins_SB[-1:])


@dataclass(frozen=True)
class Rollout:
    """T steps of B envs; all tensors [T, B, ...] on the learner's device. See `envs.trajectory`."""

    observations: Observations
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    life_lost: Tensor
    cut: Tensor
    valid: Tensor
    extras: Mapping[str, Tensor]  # what `act` returned besides actions
    memory: RecurrentRollout | None = None  # of a network that has one


@dataclass(frozen=True)
class Batch:
    """Rows to learn from, with targets fixed before the first update. All tensors [N, ...].

    `observations` and `rows` (int64 [N], or None for all) give the network's input when the loss asks for it.
    """

    observations: Observations
    rows: Tensor | None
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    target: Tensor
    valid: Tensor  # float, 0 for rows that no loss may use
    memory: RecurrentRollout | None = None  # of a batch that holds all rows of its rollout

    def observation(self) -> Observation:
        """The network's input, [N, ...]."""
        return self.observations.rows(self.rows)

    def select(self, index_M: Tensor) -> Batch:
        """The rows at `index_M`, int64 [M], of a batch that holds all rows of its rollout."""
        return Batch(
            self.observations, index_M, **{name: column[index_M] for name, column in self._columns().items()}
        )

    def split(self, parts: int) -> Iterator[Batch]:
        """As many batches (fewer, of few rows) of one row after another, of one that has `rows`: nothing is copied."""
        assert self.rows is not None
        chunks = {name: column.chunk(parts) for name, column in self._columns().items()}
        for number, rows_M in enumerate(self.rows.chunk(parts)):
            yield Batch(self.observations, rows_M, **{name: chunk[number] for name, chunk in chunks.items()})

    def _columns(self) -> dict[str, Any]:
        names = ("action", "log_prob", "value", "advantage", "target", "valid")
        return {name: getattr(self, name) for name in names}
