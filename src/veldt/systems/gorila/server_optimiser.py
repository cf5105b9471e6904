"""The optimiser that applies gradients on the parameter server (Nair et al. 2015, section 4).

    learner --part of the gradient, version--> parameter shards --newest parts--> the same learner's network

Nothing is applied here: the gradient goes to the shards, which apply those of all learners and publish the parameters.
The learner does not wait for that, so the parameters it pulls may lack its own last gradients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Loss
from veldt.algorithms.groups import ParameterGroup
from veldt.config.gorila_settings import GorilaConfig
from veldt.errors import VeldtError, diverged
from veldt.exchange.parameter_partition import ShardedParameters
from veldt.exchange.slots import Arrays, SlotOut, Slots
from veldt.exchange.weights import Weights
from veldt.networks.flat import FlatParameters
from veldt.runtime.devices import in_host_memory
from veldt.runtime.role_messages import Note
from veldt.runtime.roles import Control
from veldt.systems.gorila.discard_monitor import DiscardMonitor
from veldt.systems.gorila.outliers import Outliers

_POLL_S = 0.25  # seconds without a heartbeat while a shard has no free slot
_PAUSE_S = 0.01  # between checks whether all shards have published
_DEADLINE_S = 300.0  # for a lost shard to be up again


class ServerOptimiser:
    """See `Optimiser`.

    Args:
        groups: the algorithm's.
        gradients, parts: the edges to each shard, and those from each, in order.
        rank: of the learner.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        groups: Sequence[ParameterGroup],
        gradients: Sequence[Slots],
        parts: Sequence[Weights],
        settings: GorilaConfig,
        control: Control,
        rank: int,
    ) -> None:
        self.state: dict[str, Tensor] = {}  # the shards hold it
        self._parameters, self._control, self._rank = parameters, control, rank
        self._groups = [group.name for group in groups]
        self._fetch_every, self._since_fetch = settings.learner_sync_interval, 0
        self._out: list[SlotOut] = [edge.producer(rank) for edge in gradients]
        # Copies to and from an accelerator go through these.
        self._pulled_P = in_host_memory(parameters.fp32_params)
        self._pushed_P = in_host_memory(parameters.gradient)
        self._sharded = ShardedParameters(parts, self._pulled_P.numpy())
        self._outliers = Outliers(settings.outlier_deviations)
        self._stale_monitor = DiscardMonitor(self._warn_of_stale)
        self._outlier_monitor = DiscardMonitor(self._warn_of_outliers)
        self._settings, self._blocked_s = settings, 0.0

    @property
    def version(self) -> int:
        """Version of its parameters: the number of updates that all of their parts include."""
        return self._sharded.version

    def apply(self, gradient_P: Tensor, rates: Mapping[str, float], loss: Loss) -> None:
        """Sends the gradient to the shards, unless its loss is an outlier, and pulls new parameters when that is due.

        Raises VeldtError for a loss or a gradient that is not finite: it would spoil all learners' parameters.
        """
        both = loss.total.detach().reshape(()), loss.metrics["train/grad_norm"]
        value, norm = torch.stack(both).tolist()  # together: an accelerator is waited for once
        if not (math.isfinite(value) and math.isfinite(norm)):
            raise diverged(f"the loss is {value} and its gradient's norm {norm}")
        if not self._outliers.is_outlier(value):
            self._push(gradient_P, rates)
        self._outlier_monitor.add(self._outliers.num_found, self._outliers.seen)
        self._since_fetch += 1
        if self._since_fetch >= self._fetch_every:
            self.pull()
            self._since_fetch = 0

    def pull(self) -> None:
        """Pulls the newest parts of the parameters."""
        if not self._sharded.pull():
            return
        if self._pulled_P is not self._parameters.fp32_params:
            self._parameters.fp32_params.copy_(self._pulled_P)
        self._parameters.refresh()
        if self._rank == 0:
            self._stale_monitor.add(self._sharded.counts.stale, self._sharded.counts.gradients)

    def metrics(self) -> dict[str, float]:
        """Returns metrics to log."""
        counts = self._sharded.counts
        metrics = {
            "system/outlier_gradient_share": self._outlier_monitor.share,
            "system/outlier_gradients": float(self._outliers.num_found),
            "system/server_blocked_seconds": self._blocked_s,
        }
        if self._rank == 0:
            metrics |= {
                "system/stale_gradient_share": self._stale_monitor.share,
                "system/stale_gradients": float(counts.stale),
                "system/gradient_staleness_mean": counts.staleness / max(1, counts.gradients),
            }
        return {name: value for name, value in metrics.items() if value is not None}

    def _push(self, gradient_P: Tensor, rates: Mapping[str, float]) -> None:
        if gradient_P is not self._pushed_P:
            self._pushed_P.copy_(gradient_P)
        gradient = self._pushed_P.numpy()
        shards = len(self._out)
        for offset in range(shards):  # each learner starts at another shard, else they would queue up
            shard = (self._rank + offset) % shards
            slot = self._free_slot(shard)
            if slot is None:
                return
            first, end = self._sharded.bounds[shard]
            np.copyto(slot["gradient"], gradient[first:end])
            slot["base"][0] = self._sharded.version_S[shard]
            slot["learning_rate"][:] = [rates.get(name, math.nan) for name in self._groups]
            self._out[shard].commit()

    def _free_slot(self, shard: int) -> Arrays | None:
        """Waits for a free slot of this shard and returns it; None when the role is asked to stop."""
        out = self._out[shard]
        if (slot := out.slot(0.0)) is not None:
            return slot
        began = time.monotonic()
        while not self._control.stopping:
            self._control.heartbeat()
            slot, waited_s = out.slot(_POLL_S), time.monotonic() - began
            if slot is not None:
                self._blocked_s += waited_s
                return slot
            if waited_s > _DEADLINE_S:
                raise VeldtError(f"the parameter shard {shard} accepted no gradient in {_DEADLINE_S:g} s")
        return None

    def begin(self) -> None:
        """Pulls the first parameters of all shards. Raises VeldtError if a shard publishes none within five minutes."""
        began = time.monotonic()
        self.pull()
        while self.version < 0 and not self._control.stopping:
            if time.monotonic() - began > _DEADLINE_S:
                missing = ", ".join(map(str, np.flatnonzero(self._sharded.version_S < 0)))
                raise VeldtError(
                    f"no parameters came from the parameter shards {missing} in {_DEADLINE_S:g} s"
                )
            self._control.heartbeat()
            self._control.sleep(_PAUSE_S)
            self.pull()

    def _warn_of_stale(self, share: float) -> None:
        settings = self._settings
        self._note(
            f"{share:.0%} of all gradients are discarded, because they are more than {settings.max_staleness} "
            f"updates old, and those of {settings.learners} learners mostly are: raise --max-staleness (0: none is "
            "discarded), or take fewer --learners",
        )

    def _warn_of_outliers(self, share: float) -> None:
        settings = self._settings
        self._note(
            f"learner {self._rank} discards {share:.0%} of its gradients, because their losses are more than "
            f"{settings.outlier_deviations:g} standard deviations above their mean: raise --outlier-deviations (0: "
            "none is discarded)",
        )

    def _note(self, text: str) -> None:
        self._control.send(Note(text))
