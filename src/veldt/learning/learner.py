"""The learner: gradient, exchange, clip, update. All on flat vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Forward, Loss
from veldt.errors import CheckpointError, diverged
from veldt.exchange.gradients import GradientEdge
from veldt.functional.updates import clip_by_norm
from veldt.learning.optimiser import LocalOptimiser, Optimiser
from veldt.networks.flat import FlatParameters


class Learner:
    """Owns the parameters, what updates them and, where the algorithm has one, the target network.

    Args:
        forward: the network's forward pass, possibly compiled, in the precision it computes in.
        parameters: the network's.
        target: the target network's parameters, if the algorithm has one.
        optimiser: what applies gradients to the parameters; by default, the rule here.
        version_of: how many updates of these parameters there are, whoever made them, when so many were made here.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        forward: Forward,
        parameters: FlatParameters,
        edge: GradientEdge,
        target: FlatParameters | None = None,
        optimiser: Optimiser | None = None,
        version_of: Callable[[int], int] = lambda own: own,
    ) -> None:
        self._algorithm, self._forward, self._edge = algorithm, forward, edge
        self._parameters, self._target = parameters, target
        self._optimiser = optimiser or LocalOptimiser(algorithm, parameters)
        self._version_of = version_of
        self._updates = 0
        self._moved_at = 0  # the version when it was last looked whether the target is to move
        self._updated = 0

    @property
    def updates(self) -> int:
        """Updates that were made here."""
        return self._updates

    @updates.setter
    def updates(self, updates: int) -> None:
        """Goes on as after so many."""
        self._updates = updates
        self._moved_at = self.version

    @property
    def version(self) -> int:
        """Updates of these parameters so far, whoever made them."""
        return self._version_of(self._updates)

    @property
    def updated_version(self) -> int:
        """Of the parameters that the last update was made to: others may have moved them since it was computed."""
        return self._updated

    def update(self, batch: Any, progress: float, learning_rate: float) -> Loss:
        """One update of the parameters. Nothing is waited for: metrics and priorities are tensors on the device."""
        before = self.version
        loss = self._algorithm.loss(self._forward, batch, progress)
        self._parameters.backward(loss.total)
        gradient_P = self._parameters.gradient
        self._edge.reduce(gradient_P, loss.rows)
        loss.metrics["gradient_norm"] = clip_by_norm(gradient_P, self._algorithm.max_grad_norm)
        self._optimiser.apply(gradient_P, learning_rate, loss)
        self._updates += 1
        # Where a gradient goes elsewhere, nothing may have come back yet.
        self._updated = max(before, self.version - 1)
        self._move_target()
        return loss

    def renew_target(self) -> None:
        """Makes the target network, if there is one, a copy."""
        if self._target is not None:
            self._target.follow(self._parameters, 1.0)

    def _move_target(self) -> None:
        how, before = self._algorithm.target, self._moved_at
        self._moved_at = self.version
        if how is None or self._target is None:
            return
        # Several, of others' updates; less than none where others have lost some (a parameter shard, with its node).
        if (times := self._moved_at // how.every - before // how.every) > 0:
            self._target.follow(self._parameters, 1.0 - (1.0 - how.rate) ** times)

    def weights(self) -> dict[str, np.ndarray]:
        """fp32 weights by name, in the ordinary layout."""
        return {name: _to_numpy(tensor) for name, tensor in self._parameters.tensors().items()}

    def target_weights(self) -> dict[str, np.ndarray]:
        """fp32 weights of the target network by name; empty where there is none."""
        tensors = {} if self._target is None else self._target.tensors()
        return {name: _to_numpy(tensor) for name, tensor in tensors.items()}

    def optimiser_state(self) -> dict[str, np.ndarray]:
        """State of the update rule: accumulators as `rule/parameter`, counters as `rule`."""
        return state_by_parameter_name(self._parameters, self._optimiser.state)

    def load(
        self, weights: Mapping[str, Any], rule_state: Mapping[str, Any], target: Mapping[str, Any]
    ) -> None:
        """Restores all. CheckpointError where names or shapes are not this network's."""
        load_weights(self._parameters, weights)
        if self._target is not None:
            load_weights(self._target, target)
        load_state(self._parameters, self._optimiser.state, rule_state)


def by_parameter_name(parameters: FlatParameters, vector_P: Tensor) -> dict[str, np.ndarray]:
    """A vector like the parameters by their names, in the ordinary layout, copied."""
    return {name: _to_numpy(part) for name, part in parameters.split(vector_P).items()}


def state_by_parameter_name(parameters: FlatParameters, state: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """State of an update rule, copied: accumulators as `rule/parameter`, counters as `rule`."""
    arrays = {}
    for key, value in state.items():
        if value.ndim == 0:
            arrays[key] = _to_numpy(value)
        else:
            arrays |= {f"{key}/{name}": array for name, array in by_parameter_name(parameters, value).items()}
    return arrays


def check_finite(step: int, groups: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """VeldtError where the parameters or the rule's state of a checkpoint are not finite: nothing would come of it.

    A network's buffers may be what they like. (Figures are said now and then, and a checkpoint may be quicker.)
    """
    weights, state = groups["weights"], groups["optimiser"]
    learned = {name.partition("/")[2] for name in state} & weights.keys()
    for array in (*state.values(), *(weights[name] for name in learned)):
        if not np.isfinite(array).all():
            raise diverged(f"parameters are not finite at step {step:,}")


def load_state(parameters: FlatParameters, state: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> None:
    """Puts what `state_by_parameter_name` made back into `state`. CheckpointError where names or shapes are not these."""
    try:
        for key, value in state.items():
            if value.ndim == 0:
                value.copy_(torch.from_numpy(arrays[key]))
                continue
            for name, part in parameters.split(value).items():
                stored = torch.from_numpy(arrays[f"{key}/{name}"])
                if stored.shape != part.shape:
                    shapes = f"{tuple(stored.shape)}, expected {tuple(part.shape)}"
                    raise RuntimeError(f"{key}/{name} has shape {shapes}")
                part.copy_(stored)
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"the checkpoint's optimiser state does not fit this network: {error}"
        ) from None


def load_weights(parameters: FlatParameters, weights: Mapping[str, Any]) -> None:
    """Puts a checkpoint's weights into a network's parameters."""
    try:
        parameters.load({name: torch.from_numpy(array) for name, array in weights.items()})
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(f"the checkpoint's weights do not fit this network: {error}") from None


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().clone().numpy()
