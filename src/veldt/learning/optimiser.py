"""From a gradient to new parameters: where the update rule's state is, and who else applies gradients to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Loss
from veldt.exchange.central_store import PARAMETERS, CentralStoreClient, Chunk
from veldt.functional.updates import UpdateRule
from veldt.networks.flat import FlatParameters


class Optimiser(Protocol):
    """Owns the update rule's state of a network's parameters."""

    state: dict[str, Tensor]

    def apply(self, gradient_P: Tensor, learning_rate: float, loss: Loss) -> None:
        """One update of the network's parameters by the gradient of `loss`; the gradient may be overwritten."""


class LocalOptimiser:
    """See `Optimiser`: nobody else has anything to do with these parameters."""

    def __init__(self, algorithm: Algorithm, parameters: FlatParameters) -> None:
        self._rule, self._parameters = ScaledRule(algorithm, parameters), parameters
        self.state = algorithm.rule.state(parameters.master)

    def apply(self, gradient_P: Tensor, learning_rate: float, loss: Loss | None = None) -> None:
        own = self._parameters
        self._rule.apply(0, own.master, gradient_P, self.state, learning_rate, own.rounded)


class CentralOptimiser:
    """See `Optimiser`: many learners update the parameters and the state in a central store, and go on from there.

    With one local step each gradient is applied to the central values, by the central state (Stooke & Abbeel, section
    4.3). With more, a learner goes on by itself in between; then what it has added to the parameters, and to each
    accumulator besides its decay d over n steps, is added to the central ones (appendix B):

        central <- d^n central + (local now - d^n local at the start)

    A single learner finds there what it left, so that this is its own rule exactly, up to rounding.

    Args:
        store: this learner's end of the store, in which the parameters are that it begins with.
        local_steps: updates between two exchanges.
        met: called when its parameters have become the central ones: when others' updates are in them.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        parameters: FlatParameters,
        store: CentralStoreClient,
        local_steps: int,
        met: Callable[[], None] = lambda: None,
    ) -> None:
        self._rule, self._parameters, self._store = ScaledRule(algorithm, parameters), parameters, store
        self._decay_of: Mapping[str, float] = {PARAMETERS: 1.0, **algorithm.rule.decay_of}
        self._squares = algorithm.rule.squares
        self._local_steps, self._steps = local_steps, 0  # and how many since the last exchange
        self._met = met
        self._local = {PARAMETERS: parameters.master}
        if local_steps > 1:
            self._local |= algorithm.rule.state(parameters.master)
        self.state = {name: tensor for name, tensor in self._local.items() if name != PARAMETERS}
        self._start = {name: tensor.clone() for name, tensor in self._local.items() if local_steps > 1}
        self.pull()

    def apply(self, gradient_P: Tensor, learning_rate: float, loss: Loss | None = None) -> None:
        if self._local_steps == 1:
            for chunk in self._store.chunks():
                self._update(chunk, gradient_P, learning_rate)
            self._met()
            return
        own = self._parameters
        self._rule.apply(0, own.master, gradient_P, self.state, learning_rate, own.rounded)
        self._steps += 1
        if self._steps == self._local_steps:
            self.exchange()

    def exchange(self) -> None:
        """Brings what is new to the store, and goes on from what is there."""
        if not self._steps:
            return
        new = {name: self._local[name] - start for name, start in self._start.items() if not start.ndim}
        for chunk in self._store.chunks():
            for name, central in chunk.tensors.items():
                if not central.ndim:
                    self._local[name].copy_(central.add_(new[name].to(central)))
                    continue
                decay = self._decay_of[name] ** self._steps
                now, start = (own[name][chunk.first : chunk.end] for own in (self._local, self._start))
                start.mul_(-decay).add_(now)
                if name == self._squares:
                    # By rounding a difference can be less than 0, and others may have let the sum decay below that.
                    start.clamp_(min=0.0)
                now.copy_(central.mul_(decay).add_(start.to(central)))
                start.copy_(central)
        for name in new:
            self._start[name].copy_(self._local[name])
        self._parameters.refresh()
        self._steps = 0
        self._met()

    def pull(self) -> None:
        """Goes on from the central values as they are this moment; not in the midst of local steps.

        Without locks: what it takes is what later changes are measured by, be it of one moment or of several.
        """
        assert not self._steps
        central = self._store.values()
        for name, own in self._local.items():
            own.copy_(central[name])
        for name, start in self._start.items():
            start.copy_(self._local[name])
        self._parameters.refresh()
        self._met()

    def catch_up(self) -> None:
        """Goes on from the central values, to which it first brings what is new."""
        if self._steps:
            self.exchange()
        else:
            self.pull()

    def _update(self, chunk: Chunk, gradient_P: Tensor, learning_rate: float) -> None:
        """The central values of a chunk become those after one update, and so do the learner's own parameters."""
        own, part = self._parameters, slice(chunk.first, chunk.end)
        # The same memory where the learner is on the CPU, else copies on its device.
        here = {name: tensor.to(gradient_P.device) for name, tensor in chunk.tensors.items()}
        state = {name: tensor for name, tensor in here.items() if name != PARAMETERS}
        self._rule.apply(
            chunk.first, here[PARAMETERS], gradient_P[part], state, learning_rate, own.rounded[part]
        )
        own.master[part].copy_(here[PARAMETERS])
        for name, tensor in chunk.tensors.items():
            if tensor is not here[name]:
                tensor.copy_(here[name])


class ScaledRule:
    """An update rule whose steps an algorithm scales, each parameter's by its own factor."""

    def __init__(self, algorithm: Algorithm, parameters: FlatParameters) -> None:
        self._rule: UpdateRule = algorithm.rule
        scale_P = torch.ones_like(parameters.master)
        for name, part in parameters.split(scale_P).items():
            part.fill_(algorithm.lr_multiplier(name))
        self._scale_P = None if bool((scale_P == 1.0).all()) else scale_P

    def apply(
        self,
        first: int,
        parameters_N: Tensor,
        gradient_N: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        rounded_R: Tensor,
    ) -> None:
        """One update in place of N parameters, which begin at `first` of the network's."""
        before_N = None if self._scale_P is None else parameters_N.clone()
        self._rule.apply(parameters_N, gradient_N, state, learning_rate, rounded_R)
        if before_N is not None and self._scale_P is not None:
            scale_N = self._scale_P[first : first + len(parameters_N)]
            torch.lerp(before_N, parameters_N, scale_N, out=parameters_N)
            rounded_R.copy_(parameters_N[: len(rounded_R)])
