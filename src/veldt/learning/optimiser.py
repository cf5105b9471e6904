"""The update rules of an algorithm's parameter groups, and the optimiser that applies them in this process.

    parameters [P]   | actor.body | critic.body | actor.last | critic.last |     (bf16 parts come first)
    pieces             actor        critic        actor        critic

Accumulators of all groups are vectors [P]. Groups with the same rule and interval share its counters, which advance
once in an update, however many pieces there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Loss
from veldt.algorithms.groups import ParameterGroup, group_of, shown_member
from veldt.errors import UsageError
from veldt.functional.updates import clip_by_norm
from veldt.networks.flat import FlatParameters


@dataclass(frozen=True)
class GroupSlice:
    """Consecutive parameters `first` up to `end` of a group. `counters` is appended to its counters' names."""

    first: int
    end: int
    group: ParameterGroup
    counters: str


class GroupedRule:
    """The update rules of all parameter groups, for any slice of the flat parameter vector; see the module.

    Args:
        groups: the algorithm's; see `ParameterGroup`.
        parameters: the network's.

    Raises:
        UsageError: there is no group, a parameter belongs to none, or a group has no parameters.
    """

    def __init__(self, groups: Sequence[ParameterGroup], parameters: FlatParameters) -> None:
        if not groups:
            raise UsageError("the algorithm's groups are empty: give at least one ParameterGroup")
        if not isinstance(groups, Sequence) or not all(isinstance(one, ParameterGroup) for one in groups):
            raise UsageError(
                f"the algorithm's groups are {shown_member(groups)}: they must be a list of "
                "veldt.algorithms.groups.ParameterGroup"
            )
        self.groups = tuple(groups)
        self.members: dict[str, list[int]] = {group.name: [] for group in groups}
        if len(self.members) < len(self.groups):
            raise UsageError(f"two parameter groups have the same name, of {_listed(groups)}: rename one")
        self.pieces: list[GroupSlice] = []
        first = 0
        for number, (name, size) in enumerate(zip(parameters.names, parameters.sizes, strict=True)):
            group = group_of(groups, name)
            if group is None:
                raise UsageError(
                    f"the parameter {name} belongs to no parameter group, of {_listed(groups)}: add its prefix to one"
                )
            self.members[group.name].append(number)
            last = self.pieces[-1] if self.pieces else None
            if last is not None and last.group is group:
                first = self.pieces.pop().first
            end = (last.end if last is not None else 0) + size
            self.pieces.append(GroupSlice(first, end, group, self._counters(group)))
            first = end
        if empty := [name for name, numbers in self.members.items() if not numbers]:
            raise UsageError(
                f"the parameter group {empty[0]} has no parameters, of {_listed(groups)}: correct its prefix"
            )
        self._is_single = len(self.pieces) == 1

    def _counters(self, group: ParameterGroup) -> str:
        """The ending of the names of a group's counters; none if all groups share them."""
        kinds = [(each.rule, each.every) for each in self.groups]
        first = self.groups[kinds.index((group.rule, group.every))]
        return "" if all(kind == kinds[0] for kind in kinds) else f".{first.name}"

    def due(self, update: int) -> tuple[str, ...]:
        """Names of the groups that move in the update with this number, counted from 1."""
        return tuple(group.name for group in self.groups if update % group.every == 0)

    def rates(self, due: Sequence[str], progress: float, learning_rate: float) -> dict[str, float]:
        """Returns the learning rate of each group in `due`; `learning_rate` is that of groups without their own."""
        rates = {
            group.name: learning_rate if group.learning_rate is None else group.learning_rate(progress)
            for group in self.groups
            if group.name in due
        }
        for name, rate in rates.items():
            if not (isinstance(rate, Real) and rate >= 0):
                raise UsageError(
                    f"the learning rate of the parameter group {name} is {rate!r}: `learning_rate` must return a "
                    "number, 0 or more"
                )
        return rates

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        """Returns the initial state: accumulators float32 [P], and counters []."""
        if self._is_single:
            return self.groups[0].rule.state(parameters_P)
        state: dict[str, Tensor] = {}
        for piece in self.pieces:
            for name, value in piece.group.rule.state(parameters_P[piece.first : piece.end]).items():
                if value.ndim:
                    whole = state.setdefault(name, torch.zeros_like(parameters_P))
                    whole[piece.first : piece.end] = value
                else:
                    state.setdefault(name + piece.counters, value)
        return state

    def within(self, first: int, end: int) -> Iterator[tuple[GroupSlice, slice]]:
        """Yields the pieces that overlap the parameters `first` to `end`, each with its slice of those."""
        for piece in self.pieces:
            start, stop = max(first, piece.first), min(end, piece.end)
            if start < stop:
                yield piece, slice(start - first, stop - first)

    def apply(
        self,
        first: int,
        parameters_N: Tensor,
        gradient_N: Tensor,
        state: Mapping[str, Tensor],
        rates: Mapping[str, float],
        bf16_R: Tensor,
    ) -> None:
        """Updates N parameters, which begin at `first` in the network's vector, in place; see `UpdateRule.apply`.

        Args:
            state: of these parameters: accumulators [N], counters [].
            rates: the learning rate of each group that moves.
        """
        if self._is_single:
            group = self.groups[0]
            if group.name in rates:
                group.rule.apply(parameters_N, gradient_N, dict(state), rates[group.name], bf16_R)
            return
        before = {name: value.clone() for name, value in state.items() if not value.ndim}
        for piece, part, rate in self._runs(first, first + len(parameters_N), rates):
            rule, own = piece.group.rule, {}
            for name in rule.decay_of:
                if (vector := state.get(name)) is not None and vector.ndim:
                    own[name] = vector[part]
                else:
                    own[name] = state[name + piece.counters].copy_(before[name + piece.counters])
            rule.apply(parameters_N[part], gradient_N[part], own, rate, bf16_R[part])

    def _runs(
        self, first: int, end: int, rates: Mapping[str, float]
    ) -> list[tuple[GroupSlice, slice, float]]:
        """The slices of the parameters `first` to `end` to update, each with its rate: adjacent pieces with the same
        rule, counters and rate together, and an empty slice for a group that has no parameters there.

        With an empty slice, a group only counts its update: each shard and each chunk has the counters of all groups.
        """
        runs: list[tuple[GroupSlice, slice, float]] = []
        inside = list(self.within(first, end))
        names = {piece.group.name for piece, _ in inside}
        outside = {piece.group.name: piece for piece in self.pieces if piece.group.name not in names}
        for piece, part in (*inside, *((piece, slice(0, 0)) for piece in outside.values())):
            if (rate := rates.get(piece.group.name)) is None:
                continue
            if runs:
                last, before, last_rate = runs[-1]
                kind = (piece.group.rule, piece.counters, rate)
                if before.stop == part.start and kind == (last.group.rule, last.counters, last_rate):
                    runs[-1] = (last, slice(before.start, part.stop), rate)
                    continue
            runs.append((piece, part, rate))
        return runs

    def clip(self, gradient_P: Tensor) -> None:
        """Scales the gradient of each group that has a limit, in place."""
        for group in self.groups:
            if not group.max_grad_norm:
                continue
            parts = [gradient_P[piece.first : piece.end] for piece in self.pieces if piece.group is group]
            if len(parts) == 1:
                clip_by_norm(parts[0], group.max_grad_norm)
                continue
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
            for part in parts:
                part.mul_((group.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))


class Optimiser(Protocol):
    """Owns the update rule's state for a network's parameters."""

    state: dict[str, Tensor]

    def apply(self, gradient_P: Tensor, rates: Mapping[str, float], loss: Loss) -> None:
        """Makes one update of the parameters with the gradient of `loss`; it may overwrite the gradient.

        `rates` has the learning rate of each parameter group that moves.
        """


class LocalOptimiser:
    """See `Optimiser`: this process is the only one that updates these parameters."""

    def __init__(self, algorithm: Algorithm, parameters: FlatParameters) -> None:
        self._rule, self._parameters = GroupedRule(algorithm.groups, parameters), parameters
        self.state = self._rule.state(parameters.fp32_params)

    def apply(self, gradient_P: Tensor, rates: Mapping[str, float], loss: Loss | None = None) -> None:
        own = self._parameters
        self._rule.apply(0, own.fp32_params, gradient_P, self.state, rates, own.bf16_copy)


def _listed(groups: Sequence[ParameterGroup]) -> str:
    return ", ".join(f"{group.name} ({' '.join(map(repr, group.prefixes))})" for group in groups)
