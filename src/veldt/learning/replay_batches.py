"""Batches from the replay edge for a learner: transitions on its device, prefetched by one on an accelerator.

    replay edge -- batch n+1 --> side stream ==> device
                    batch n on the device ==> update ==> priorities --> replay edge

So the copy of a batch to an accelerator overlaps with the update before it. On the CPU, the learner reads a batch where
the replay shards have written it, without a copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.transitions import Transitions
from veldt.envs.spec import EnvSpec
from veldt.exchange.gradients import GradientEdge
from veldt.exchange.replay import ReplayIn, ShardedBatch
from veldt.replay.buffer import ReplaySample
from veldt.replay.sampling_strategy import weights_among
from veldt.tracking.stage_clock import StageClock

MakeTransitions = Callable[[ReplaySample, float], Transitions]


@dataclass(frozen=True)
class ReplayBatch:
    """Transitions, with `batch` to return their priorities to, and `version_N`, int64 [N], the actors' policy versions.

    Importance weights use the exponent `beta` and are divided by the largest in the batch, which is that of
    `least_mass`.
    """

    transitions: Transitions
    batch: ShardedBatch
    version_N: np.ndarray
    least_mass: float
    beta: float

    def with_global_weights(self, edge: GradientEdge) -> Transitions:
        """Returns the transitions, with weights normalised over the batches of all learners of `edge`."""
        return with_global_weights(self.transitions, self.least_mass, self.beta, edge)


def with_global_weights(
    transitions: Transitions, least_mass: float, beta: float, edge: GradientEdge
) -> Transitions:
    """Normalises importance weights over the batches of all learners; `least_mass` is the smallest in this batch."""
    share = weights_among(least_mass, -edge.all_reduce_max(-least_mass), beta)
    return dataclasses.replace(transitions, weight=transitions.weight * share)


class ReplayBatches:
    """Takes the batches requested by `client`, in order.

    Args:
        make: converts a sample, which is valid until the next is taken, and β to transitions on `device`.
        beta: returns the present β.
        clock: counts the time of waiting and converting.
        ahead: whether to prefetch one batch while the learner uses another; then `make` must copy.
    """

    def __init__(
        self,
        client: ReplayIn,
        make: MakeTransitions,
        beta: Callable[[], float],
        spec: EnvSpec,
        device: torch.device,
        clock: StageClock,
        *,
        ahead: bool,
    ) -> None:
        self._client, self._make, self._beta, self._spec = client, make, beta, spec
        self._clock, self._is_ahead = clock, ahead
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._prefetched: ReplayBatch | None = None

    def take(self, deadline_s: float) -> ReplayBatch | None:
        """Returns the next batch, valid until the next call; None after the deadline, or if a shard has lost it."""
        batch, self._prefetched = self._prefetched or self._next(deadline_s), None
        if batch is not None and self._stream is not None:
            current_stream = torch.cuda.current_stream(self._stream.device)
            current_stream.wait_stream(self._stream)
            for tensor in _tensors(batch.transitions):
                tensor.record_stream(current_stream)
        return batch

    def prefetch(self) -> None:
        """Takes the next batch already, if prefetching is on and it has arrived, while the device computes."""
        if self._is_ahead and self._prefetched is None:
            self._prefetched = self._next(0.0)

    def _next(self, deadline_s: float) -> ReplayBatch | None:
        with self._clock("wait"):
            batch = self._client.take(deadline_s)
        if batch is None:
            return None
        with self._clock("replay"):
            beta = self._beta()
            with contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                transitions = self._make(_sample(batch, self._spec), beta)
            # The batch's memory is reused when the next one is taken.
            key_N, version_N = batch.arrays["key"].copy(), batch.arrays["version"].copy()
            for_priorities = dataclasses.replace(batch, arrays={"key": key_N})
            return ReplayBatch(
                transitions, for_priorities, version_N, float(batch.arrays["mass"].min()), beta
            )


def _tensors(transitions: Transitions) -> Iterator[Tensor]:
    for field in dataclasses.fields(transitions):
        value = getattr(transitions, field.name)
        yield from value.values() if isinstance(value, dict) else (value,)


def _sample(batch: ShardedBatch, spec: EnvSpec) -> ReplaySample:
    """Converts a batch to the form of a sample from a single replay buffer; see `batch_layouts`."""
    arrays = batch.arrays

    def observation(which: str) -> dict[str, np.ndarray]:
        fields = {name: arrays[f"{which}/{name}"] for name in spec.observation}
        stacked = {name for name, field in spec.observation.items() if field.stack > 1}
        return {
            name: array.transpose(0, 3, 1, 2) if name in stacked else array for name, array in fields.items()
        }

    return ReplaySample(
        observation=observation("observation"),
        next_observation=observation("next_observation"),
        action_N=arrays["action"],
        reward_N=arrays["reward"],
        discount_N=arrays["discount"],
        mass_N=arrays["mass"],
        key_N=arrays["key"],
        version_N=arrays["version"],
    )
