"""Updates parameters and rule state in a central store, which many learners share (the asynchronous system)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from veldt.algorithms.base import Algorithm, Loss
from veldt.exchange.central_store import PARAMETERS, CentralStoreClient, Chunk
from veldt.learning.optimiser import GroupedRule
from veldt.networks.flat import FlatParameters


class CentralOptimiser:
    """See `Optimiser`: many learners update parameters and rule state in a central store, and continue from its values.

    With one local step, each gradient is applied to the central values with the central state (Stooke & Abbeel, section
    4.3). With more, a learner makes the steps on local copies. Then its change of the parameters, and of each
    accumulator apart from the decay d over n steps, is added to the central values (appendix B):

        central <- d^n central + (local now - d^n local at the start)

    With a single learner the central values are its own, so this equals its own update rule, up to rounding.

    Args:
        store: this learner's client of the store, which holds the initial parameters.
        local_steps: updates between two exchanges.
        on_synchronised: called when the local parameters equal the central ones, so that they include others' updates.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        parameters: FlatParameters,
        store: CentralStoreClient,
        local_steps: int,
        on_synchronised: Callable[[], None] = lambda: None,
    ) -> None:
        self._rule, self._parameters = GroupedRule(algorithm.groups, parameters), parameters
        self._store, self._local_steps = store, local_steps
        # Steps since the last exchange: of this learner, and of each parameter group.
        self._steps, self._steps_of = 0, dict.fromkeys(self._rule.members, 0)
        self._on_synchronised = on_synchronised
        self._local = {PARAMETERS: parameters.fp32_params}
        if local_steps > 1:
            self._local |= self._rule.state(parameters.fp32_params)
        self.state = {name: tensor for name, tensor in self._local.items() if name != PARAMETERS}
        self._start = {name: tensor.clone() for name, tensor in self._local.items() if local_steps > 1}
        self.pull()

    def apply(self, gradient_P: Tensor, rates: Mapping[str, float], loss: Loss | None = None) -> None:
        if self._local_steps == 1:
            for chunk in self._store.chunks():
                self._update(chunk, gradient_P, rates)
            self._on_synchronised()
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
        new = {name: self._local[name] - start for name, start in self._start.items() if not start.ndim}
        for chunk in self._store.chunks():
            for name, central in chunk.tensors.items():
                if not central.ndim:
                    self._local[name].copy_(central.add_(new[name].to(central)))
                    continue
                now, start = (own[name][chunk.first : chunk.end] for own in (self._local, self._start))
                for piece, part in self._rule.within(chunk.first, chunk.end):
                    rule, steps = piece.group.rule, self._steps_of[piece.group.name]
                    decay = 1.0 if name == PARAMETERS else rule.decay_of.get(name, 1.0) ** steps
                    start[part].mul_(-decay).add_(now[part])
                    if name == rule.squares:
                        # Rounding can make the difference negative, and others may have let the sum decay below that.
                        start[part].clamp_(min=0.0)
                    now[part].copy_(central[part].mul_(decay).add_(start[part].to(central)))
                start.copy_(central)
        for name in new:
            self._start[name].copy_(self._local[name])
        self._parameters.refresh()
        self._steps, self._steps_of = 0, dict.fromkeys(self._steps_of, 0)
        self._on_synchronised()

    def pull(self) -> None:
        """Continues from the present central values. Not allowed between local steps.

        It takes no lock: later changes are measured against the values read, even if others write meanwhile.
        """
        assert not self._steps
        central = self._store.values()
        for name, own in self._local.items():
            own.copy_(central[name])
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

    def _update(self, chunk: Chunk, gradient_P: Tensor, rates: Mapping[str, float]) -> None:
        """Makes one update of a chunk of the central values and copies it to the learner's own parameters."""
        own, part = self._parameters, slice(chunk.first, chunk.end)
        # On the CPU the store's own tensors, else copies on the learner's device.
        on_device = {name: tensor.to(gradient_P.device) for name, tensor in chunk.tensors.items()}
        state = {name: tensor for name, tensor in on_device.items() if name != PARAMETERS}
        self._rule.apply(
            chunk.first, on_device[PARAMETERS], gradient_P[part], state, rates, own.bf16_copy[part]
        )
        own.fp32_params[part].copy_(on_device[PARAMETERS])
        for name, tensor in chunk.tensors.items():
            if tensor is not on_device[name]:
                tensor.copy_(on_device[name])
