"""The input of on-policy algorithms: rollouts, and the batches made from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from veldt.networks.precision import Forward
from veldt.networks.recurrent import RecurrentForward

Observation = Tensor | dict[str, Tensor]


class Observations(Protocol):
    """The observations of a rollout, assembled (stacked, moved to the device) only on request."""

    def rows(self, index_N: Tensor | None) -> Observation:
        """Observations of rows n = t B + b, int64 [N]; None means all T B rows in order."""

    def last(self) -> Observation:
        """The B observations after the last step."""


@dataclass(frozen=True)
class RecurrentRollout:
    """The recurrent states of a policy with an LSTM during a rollout; see `networks.recurrent`.

    `first_BM`, float32, is the state before the first row; `last_BM`, float32, the state before the observation after
    the last step. `begins_SB`, bool [T+1, B], marks observations that begin an episode, where the state is cleared. A
    learner whose parameters differ from the actor's recomputes all rows and does not use `last_BM`.
    """

    first_BM: Tensor
    begins_SB: Tensor
    last_BM: Tensor | None = None

    def half_of_rows(self) -> RecurrentRollout:
        """Returns the states of every second env."""
        last_BM = None if self.last_BM is None else self.last_BM[::2]
        return RecurrentRollout(self.first_BM[::2], self.begins_SB[:, ::2], last_BM)


class _EverySecondEnv:
    """The observations of every second env of a rollout with T steps of B envs; see `Observations`.

    `row_N`, int64 [N], are their rows in the whole rollout.
    """

    def __init__(self, whole: Observations, steps: int, width: int, device: torch.device) -> None:
        self._whole = whole
        self.row_N = torch.arange(steps * width, device=device).view(steps, width)[:, ::2].flatten()

    def rows(self, index_N: Tensor | None) -> Observation:
        return self._whole.rows(self.row_N if index_N is None else self.row_N[index_N])

    def last(self) -> Observation:
        last = self._whole.last()
        return {name: each[::2] for name, each in last.items()} if isinstance(last, dict) else last[::2]


def unroll_forward(forward: Forward, recurrent: RecurrentRollout | None) -> Forward:
    """The forward pass for the T B rows of a rollout and then, in a second call, for the B rows after them."""
    return (
        forward if recurrent is None else RecurrentForward(forward, recurrent.first_BM, recurrent.begins_SB)
    )


def bootstrap_forward(forward: Forward, recurrent: RecurrentRollout | None) -> Forward:
    """The forward pass for the B rows after a rollout, with the parameters that sampled it."""
    if recurrent is None or recurrent.last_BM is None:
        return forward
    return RecurrentForward(forward, recurrent.last_BM, recurrent.begins_SB[-1:])


@dataclass(frozen=True)
class Rollout:
    """T steps of B envs; all tensors [T, B, ...] on the learner's device. See `envs.trajectory`.

    `action` is as `ActionSpec` stores it, `reward` float32 and raw; the flags from `terminated` to `valid` are bool.

    Row t + 1 has the observation that followed the step of row t, also where that ended an episode: the reset is a row
    of its own, with `valid` False, and leads from there to the next episode. Only `interrupted` rows have no successor.

    The tensors and observations may be views of memory that the next steps overwrite: `clone()` what you keep for
    longer than one optimisation phase.
    """

    observations: Observations
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    life_lost: Tensor
    interrupted: Tensor
    valid: Tensor
    extras: Mapping[str, Tensor]  # what `act` returned besides actions
    recurrent: RecurrentRollout | None = None  # recurrent states, if the network has an LSTM

    def half_of_rows(self) -> Rollout | None:
        """Returns the rollout of every second env; None where there is one env only."""
        steps, width = self.reward.shape
        if width == 1:
            return None
        others = ("observations", "extras", "recurrent")
        names = [field.name for field in dataclasses.fields(self) if field.name not in others]
        return dataclasses.replace(
            self,
            observations=_EverySecondEnv(self.observations, steps, width, self.reward.device),
            extras={name: _every_second_env(extra) for name, extra in self.extras.items()},
            recurrent=self.recurrent and self.recurrent.half_of_rows(),
            **{name: _every_second_env(getattr(self, name)) for name in names},
        )


def _every_second_env(tensor: Tensor) -> Tensor:
    """Of [T, B, ...]; as whole rollouts are, it is contiguous."""
    return tensor[:, ::2].contiguous()


@dataclass(frozen=True)
class Batch:
    """Rows to learn from, with targets computed before the first update. All tensors [N, ...], float32 but for actions.

    `observations` and `rows` (int64 [N], or None for all) give the network's input when the loss needs it. A subclass,
    a frozen dataclass with `kw_only=True`, may have further columns, tensors [N, ...], which minibatches divide too.
    """

    observations: Observations
    rows: Tensor | None
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    target: Tensor
    valid: Tensor  # 0 for masked rows, else 1
    recurrent: RecurrentRollout | None = None  # only in a batch with all rows of its rollout

    def observation(self) -> Observation:
        """Returns the network's input, [N, ...]."""
        return self.observations.rows(self.rows)

    def select(self, index_M: Tensor) -> Self:
        """Returns the rows `index_M`, int64 [M], of a batch that has all rows of its rollout."""
        columns = {name: column[index_M] for name, column in self._columns().items()}
        return dataclasses.replace(self, rows=index_M, recurrent=None, **columns)

    def split(self, parts: int) -> Iterator[Self]:
        """Yields `parts` consecutive slices, as even as can be, of a batch that has `rows`, without copies.

        There are fewer only where there are fewer rows: each slice has one at least.
        """
        assert self.rows is not None
        parts = min(parts, len(self.rows))
        slices = {name: column.tensor_split(parts) for name, column in self._columns().items()}
        for number, rows_M in enumerate(self.rows.tensor_split(parts)):
            columns = {name: each[number] for name, each in slices.items()}
            yield dataclasses.replace(self, rows=rows_M, recurrent=None, **columns)

    def half_of_rows(self) -> Self | None:
        """Returns half of the rows, or the rows of half of the envs, where a recurrent network needs these in order.

        None where there is one row, or one env, only.
        """
        if self.rows is not None:
            return next(self.split(2)) if len(self.rows) > 1 else None
        if self.recurrent is None:
            # In the order of all T B rows envs alternate.
            every_second_M = torch.arange(0, len(self.action), 2, device=self.action.device)
            return self.select(every_second_M) if len(self.action) > 1 else None
        width = len(self.recurrent.first_BM)
        if width == 1:
            return None
        observations = _EverySecondEnv(
            self.observations, len(self.action) // width, width, self.action.device
        )
        columns = {name: column[observations.row_N] for name, column in self._columns().items()}
        return dataclasses.replace(
            self, observations=observations, recurrent=self.recurrent.half_of_rows(), **columns
        )

    def _columns(self) -> dict[str, Any]:
        names = {field.name for field in dataclasses.fields(self)} - {"observations", "rows", "recurrent"}
        return {name: getattr(self, name) for name in names}
