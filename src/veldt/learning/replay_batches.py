"""Batches of replay on the learner's device: their conversion from the stored form, and one batch ahead of the learner.

    stored: `ReplayBatch` --BatchConverter--> on the device: `Transitions` ==> targets, loss ==> priorities --> stored

A local replay buffer's batches are converted when they are sampled. Those of replay shards are converted by
`ReplayBatches`, on an accelerator one ahead, on a stream of its own:

    replay edge -- batch n+1 --> side stream ==> device
                    batch n on the device ==> update ==> priorities --> replay edge

So the copy of a batch to an accelerator overlaps with the update before it. On the CPU, the learner reads a batch where
the replay buffer or the shards have written it, without a copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from veldt.algorithms.base import OffPolicy
from veldt.algorithms.rollout import Observation
from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import EnvSpec
from veldt.exchange.gradients import GradientEdge
from veldt.exchange.replay import ReplayIn
from veldt.replay.batch import ReplayBatch, importance_weights
from veldt.runtime.devices import current_stream, on_stream, side_stream, to_device
from veldt.sampling.checked_actions import num_noise
from veldt.sampling.observations import as_network_input
from veldt.tracking.stage_clock import StageClock


class NoiseWidths(NamedTuple):
    """How many standard normals an update needs: once for all rows, and for each row."""

    num_shared: int
    num_each_row: int

    @classmethod
    def of(cls, algorithm: OffPolicy, network: nn.Module) -> NoiseWidths:
        shared, each_row = (num_noise(algorithm, network, of) for of in ("update_noise", "row_noise"))
        return cls(shared, each_row)


@dataclass(frozen=True)
class BatchConverter:
    """Converts stored batches to transitions on `device`, with the noise that the algorithm needs for an update."""

    spec: EnvSpec
    noise: NoiseWidths
    device: torch.device

    def to_transitions(self, batch: ReplayBatch, beta: float, seeds: Sequence[int]) -> Transitions:
        """Converts a batch, with importance weights for β. On the CPU, transitions are views of the batch.

        `seeds` are those of the noise for all rows together, and of the noise of each row.
        """
        return Transitions(
            observation=self._observation(batch.observation),
            action=self._tensor(batch.action_N),
            reward=self._tensor(batch.reward_N),
            discount=self._tensor(batch.discount_N),
            next_observation=self._observation(batch.next_observation),
            weight=self._tensor(importance_weights(batch.mass_N, beta)),
            noise=self._normals(3, self.noise.num_shared, seeds[0]),
            row_noise=self._normals(len(batch), self.noise.num_each_row, seeds[1]),
        )

    def _observation(self, arrays: Mapping[str, np.ndarray]) -> Observation:
        return as_network_input(self.spec, {name: self._tensor(array) for name, array in arrays.items()})

    def _normals(self, rows: int, columns: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed) if columns else None
        return to_device(torch.randn(rows, columns, generator=generator), self.device)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(array), self.device)


def with_global_weights(
    transitions: Transitions, least_mass: float, beta: float, edge: GradientEdge
) -> Transitions:
    """Divides importance weights by the largest over the batches of all learners, in the place of this batch's own.

    The largest weight is that of the smallest mass, which is `least_mass` in this batch.
    """
    least_of_all = -edge.all_reduce_max(-least_mass)
    return dataclasses.replace(transitions, weight=transitions.weight * (least_of_all / least_mass) ** beta)


class ReplayBatches:
    """Takes the batches requested by `client`, in order.

    Args:
        convert: makes transitions on `device` of a batch, and returns β of their weights, too.
        edge: connects the learners that share each batch, whose weights are then normalised over all parts; None
            otherwise.
        clock: counts the time of waiting and converting.
        ahead: whether to prefetch one batch while the learner uses another; then `convert` must copy.
    """

    def __init__(
        self,
        client: ReplayIn,
        convert: Callable[[ReplayBatch], tuple[Transitions, float]],
        edge: GradientEdge | None,
        device: torch.device,
        clock: StageClock,
        *,
        ahead: bool,
    ) -> None:
        self._client, self._convert, self._edge = client, convert, edge
        self._clock, self._is_ahead = clock, ahead
        self._device, self._stream = device, side_stream(device)
        self._prefetched: tuple[ReplayBatch, Transitions, float] | None = None

    def take(self, deadline_s: float) -> tuple[ReplayBatch, Transitions] | None:
        """Returns the next batch in both forms, valid until the client gives it back.

        None after the deadline, or if a shard has lost it.
        """
        found, self._prefetched = self._prefetched or self._next(deadline_s), None
        if found is None:
            return None
        batch, transitions, beta = found
        if self._stream is not None:
            current = current_stream(self._device)
            current.wait_stream(self._stream)
            for tensor in _tensors(transitions):
                tensor.record_stream(current)
        if self._edge is not None:
            transitions = with_global_weights(transitions, float(batch.mass_N.min()), beta, self._edge)
        return batch, transitions

    def prefetch(self) -> None:
        """Takes the next batch already, if prefetching is on and it has arrived, while the device computes."""
        if self._is_ahead and self._prefetched is None:
            self._prefetched = self._next(0.0)

    def _next(self, deadline_s: float) -> tuple[ReplayBatch, Transitions, float] | None:
        with self._clock("wait"):
            batch = self._client.take(deadline_s)
        if batch is None:
            return None
        with self._clock("replay"), on_stream(self._device, self._stream):
            return batch, *self._convert(batch)


def _tensors(transitions: Transitions) -> Iterator[Tensor]:
    for field in dataclasses.fields(transitions):
        value = getattr(transitions, field.name)
        yield from value.values() if isinstance(value, dict) else (value,)
