"""Batches of the replay edge as a learner takes them: transitions on its device, on an accelerator one ahead.

    replay edge --batch-size n+1--> side stream ==> device
                    batch n on the device ==> update ==> priorities --> replay edge

What a batch costs to get to an accelerator is so spent while the update before is computed. On the CPU a batch is
learned from where shards have written it, and nothing is copied.
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
    """`batch` says whose priorities are to be renewed; `version_N`, int64 [N], acted in it.

    Its rows are weighed by the exponent `beta` over the largest weight among them, that of `least_mass`.
    """

    transitions: Transitions
    batch: ShardedBatch
    version_N: np.ndarray
    least_mass: float
    beta: float

    def with_global_weights(self, edge: GradientEdge) -> Transitions:
        """The transitions, weighed as a part of the batch that all learners of `edge` have together."""
        return with_global_weights(self.transitions, self.least_mass, self.beta, edge)


def with_global_weights(
    transitions: Transitions, least_mass: float, beta: float, edge: GradientEdge
) -> Transitions:
    """Transitions, of which the least mass is given, weighed as a part of the batch that all learners have together."""
    share = weights_among(least_mass, -edge.all_reduce_max(-least_mass), beta)
    return dataclasses.replace(transitions, weight=transitions.weight * share)


class ReplayBatches:
    """What is ordered of `client`, in order.

    Args:
        make: transitions on `device` of a sample, which is there until the next is taken, weighed by an exponent.
        beta: that exponent now.
        clock: what waiting and making are booked to.
        ahead: whether the next one is taken while one is learned from: `make` then has to copy.
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
        self._moved: ReplayBatch | None = None

    def take(self, deadline_s: float) -> ReplayBatch | None:
        """The next one, until it is called again; None if it did not come in time, or was lost with a shard."""
        taken, self._moved = self._moved or self._next(deadline_s), None
        if taken is not None and self._stream is not None:
            here = torch.cuda.current_stream(self._stream.device)
            here.wait_stream(self._stream)
            for tensor in _tensors(taken.transitions):
                tensor.record_stream(here)
        return taken

    def prefetch(self) -> None:
        """Takes the next one already, if it is to be and has come, beside what the device computes."""
        if self._is_ahead and self._moved is None:
            self._moved = self._next(0.0)

    def _next(self, deadline_s: float) -> ReplayBatch | None:
        with self._clock("wait"):
            batch = self._client.take(deadline_s)
        if batch is None:
            return None
        with self._clock("replay"):
            beta = self._beta()
            with contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                transitions = self._make(_sample(batch, self._spec), beta)
            # Its place is another's as soon as the next one is taken.
            key_N, version_N = batch.arrays["key"].copy(), batch.arrays["version"].copy()
            named = dataclasses.replace(batch, arrays={"key": key_N})
            return ReplayBatch(transitions, named, version_N, float(batch.arrays["mass"].min()), beta)


def _tensors(transitions: Transitions) -> Iterator[Tensor]:
    for field in dataclasses.fields(transitions):
        value = getattr(transitions, field.name)
        yield from value.values() if isinstance(value, dict) else (value,)


def _sample(batch: ShardedBatch, spec: EnvSpec) -> ReplaySample:
    """A batch as one memory would have drawn it; see `batch_layouts`."""
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
