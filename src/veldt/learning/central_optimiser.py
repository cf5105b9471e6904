"""Updates parameters and rule state in a central store, which many learners share (the asynchronous system)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Loss
from veldt.exchange.central_store import CentralStoreClient, Chunk
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.learning.optimiser import GroupedRule, GroupSlice
from veldt.networks.flat import FlatParameters
from veldt.runtime.devices import in_host_memory, one_thread, to_device


class CentralOptimiser:
    """See `Optimiser`: many learners update parameters and rule state in a central store, and continue from its values.

    With one local step, each gradient is applied to the central values with the central state (Stooke & Abbeel, section
    4.3). With more, or with `own_moments`, a learner makes the steps on local copies. Then its change of the
    parameters, and of each accumulator apart from the decay d over n steps, is added to the central values (appendix
    B):

        central <- d^n central + (local now - d^n local at the start)

    The appendix has accumulation variables instead; they are that bracket, up to rounding, which must not make a sum of
    squares negative. With a single learner the central values are its own, so this equals its own update rule, up to
    rounding. The default differs from the appendix in three details, each with a switch:

    * `own_moments`: the appendix makes a single local step, too, with the local moments as of the last exchange.
    * `count_share`: in the appendix t, which the bias correction uses, is no central value: each learner has its own,
      which begins at 0. The default takes the store's count of all updates, as many as are in the central moments.
    * `Adam.epsilon_hat`: the appendix adds ε to the root of the second moment itself.

    The host updates the store, which is in its memory. Of a learner on an accelerator, it gets the gradient, or the
    changes, before a chunk is locked, and returns the new values after the last one: others never wait for the device.

    Args:
        store: this learner's client of the store, which holds the initial parameters.
        local_steps: updates between two exchanges.
        own_moments: whether a single local step, too, is made with local copies of the rule's state.
        count_share: with a number, this learner's rule uses its own count of updates, while the store counts those of
            all. It begins at this part of the store's count, which is not 0 in a resumed run.
        on_synchronised: called when the local parameters equal the central ones, so that they include others' updates.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        parameters: FlatParameters,
        store: CentralStoreClient,
        local_steps: int,
        on_synchronised: Callable[[], None] = lambda: None,
        *,
        own_moments: bool = False,
        count_share: float | None = None,
    ) -> None:
        self._rule, self._parameters = GroupedRule(algorithm.groups, parameters), parameters
        self._store, self._local_steps = store, local_steps
        self._is_local = local_steps > 1 or own_moments  # whether steps are made on local copies
        # Steps since the last exchange: of this learner, and of each parameter group.
        self._steps, self._steps_of = 0, dict.fromkeys(self._rule.members, 0)
        self._on_synchronised = on_synchronised
        self._local = {PARAMETERS: parameters.fp32_params}
        if self._is_local:
            self._local |= self._rule.state(parameters.fp32_params)
        self.state = {name: tensor for name, tensor in self._local.items() if name != PARAMETERS}
        self._start = {name: tensor.clone() for name, tensor in self._local.items() if self._is_local}
        # The learner's own counts of updates, if the rule uses those.
        self._own_counts: dict[str, Tensor] = {}
        if count_share is not None:
            self._own_counts = {
                name: (value * count_share).floor()
                for name, value in store.values().items()
                if not value.ndim
            }
        # What the store gets and returns; on the CPU these are the learner's own tensors.
        self._host_P, self._host_gradient_P = map(
            in_host_memory, (parameters.fp32_params, parameters.gradient)
        )
        self._host_start = {name: in_host_memory(start) for name, start in self._start.items()}
        self._is_on_cpu = self._host_P is parameters.fp32_params
        self._host_bf16_R = parameters.bf16_copy if self._is_on_cpu else torch.empty(0, dtype=torch.bfloat16)
        self.pull()

    def apply(self, gradient_P: Tensor, rates: Mapping[str, float], loss: Loss | None = None) -> None:
        if not self._is_local:
            self._apply_to_store(gradient_P, rates)
            return
        own = self._parameters
        self._rule.apply(0, own.fp32_params, gradient_P, self.state, rates, own.bf16_copy)
        self._steps += 1
        for name in rates:
            self._steps_of[name] += 1
        if self._steps == self._local_steps:
            self.exchange()

    def exchange(self) -> None:
        """Adds local changes to the central values and continues from the result."""
        if not self._steps:
            return
        self._start_to_change()
        counters: dict[str, Tensor] = {}
        with self._beside_others():
            for chunk in self._store.chunks():
                for name, central in chunk.tensors.items():
                    if not central.ndim:
                        counters[name] = central.add_(self._host_start[name]).clone()
                        continue
                    change = self._host_start[name][chunk.first : chunk.end]
                    for piece, part in self._rule.within(chunk.first, chunk.end):
                        central[part].mul_(self._decay(name, piece)).add_(change[part])
                    change.copy_(central)
        for name, start in self._start.items():
            newest = counters.get(name, self._host_start[name])
            if name in self._own_counts:
                newest = self._own_counts[name].copy_(self._local[name])
            if newest is not start:
                start.copy_(newest)
            self._local[name].copy_(start)
        self._parameters.refresh()
        self._steps, self._steps_of = 0, dict.fromkeys(self._steps_of, 0)
        self._on_synchronised()

    def _start_to_change(self) -> None:
        """Replaces the values at the last exchange by what this learner adds to the central ones, in host memory."""
        for name, start in self._start.items():
            now = self._local[name]
            if not start.ndim:
                start.neg_().add_(now)
            else:
                for piece, part in self._rule.within(0, len(start)):
                    start[part].mul_(-self._decay(name, piece)).add_(now[part])
                    if name == piece.group.rule.squares:
                        # Rounding can make the difference negative, and others may have let the sum decay below that.
                        start[part].clamp_(min=0.0)
            if not self._is_on_cpu:
                self._host_start[name].copy_(start)

    def _decay(self, name: str, piece: GroupSlice) -> float:
        """The factor on an entry of the state over the steps since the last exchange; 1 for the parameters."""
        if name == PARAMETERS:
            return 1.0
        return piece.group.rule.decay_of.get(name, 1.0) ** self._steps_of[piece.group.name]

    def pull(self) -> None:
        """Continues from the present central values. Not allowed between local steps.

        It takes no lock: later changes are measured against the values read, even if others write meanwhile.
        """
        assert not self._steps
        central = self._store.values() | self._own_counts
        for name, own in self._local.items():
            own.copy_(to_device(central[name], own.device))
        for name, start in self._start.items():
            start.copy_(self._local[name])
        self._parameters.refresh()
        self._on_synchronised()

    def catch_up(self) -> None:
        """Continues from the central values, after adding local changes if there are any."""
        if self._steps:
            self.exchange()
        else:
            self.pull()

    def _apply_to_store(self, gradient_P: Tensor, rates: Mapping[str, float]) -> None:
        """Makes one update of the central values and copies them to the learner's own parameters."""
        own = self._parameters
        if not self._is_on_cpu:
            gradient_P = self._host_gradient_P.copy_(gradient_P)
        counts = self._own_counts
        with self._beside_others():
            for chunk in self._store.chunks():
                counts = self._update(chunk, gradient_P, rates)
        self._own_counts = counts
        if not self._is_on_cpu:
            own.fp32_params.copy_(self._host_P)
            own.refresh()
        elif len(rates) < len(self._rule.members):
            own.refresh()  # the rule has not rounded the groups that stay, and others may have moved them
        self._on_synchronised()

    def _update(self, chunk: Chunk, gradient_P: Tensor, rates: Mapping[str, float]) -> dict[str, Tensor]:
        """Updates a chunk, and returns the learner's own counts after that."""
        part, central = slice(chunk.first, chunk.end), chunk.tensors[PARAMETERS]
        counts = {name: own.clone() for name, own in self._own_counts.items()}
        state = {name: tensor for name, tensor in chunk.tensors.items() if name != PARAMETERS} | counts
        self._rule.apply(chunk.first, central, gradient_P[part], state, rates, self._host_bf16_R[part])
        self._host_P[part].copy_(central)
        for name, count in counts.items():
            chunk.tensors[name].add_(count - self._own_counts[name])
        return counts

    def _beside_others(self) -> contextlib.AbstractContextManager[None]:
        """A context of the host's work for a learner on an accelerator: other learners need the other cores."""
        return contextlib.nullcontext() if self._is_on_cpu else one_thread()
