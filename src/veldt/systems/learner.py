"""The learner: gradient, exchange, clip, update. All on flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Forward, Loss
from veldt.errors import CheckpointError
from veldt.exchange.gradients import GradientEdge
from veldt.functional.updates import clip_by_norm
from veldt.networks.flat import FlatParameters


class Learner:
    """Owns the parameters, the update rule's state and, where the algorithm has one, the target network.

    Args:
        forward: the network's forward pass, possibly compiled, in the precision it computes in.
        parameters: the network's.
        target: the target network's parameters, if the algorithm has one.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        forward: Forward,
        parameters: FlatParameters,
        edge: GradientEdge,
        target: FlatParameters | None = None,
    ) -> None:
        self._algorithm, self._forward, self._edge = algorithm, forward, edge
        self._parameters, self._target = parameters, target
        self._rule_state = algorithm.rule.state(parameters.master)
        self._scale_P = _rate_scales(algorithm, parameters)
        self.updates = 0

    def update(self, batch: Any, progress: float, learning_rate: float) -> Loss:
        """One update of the parameters. Nothing is waited for: figures and priorities are tensors on the device."""
        loss = self._algorithm.loss(self._forward, batch, progress)
        self._parameters.backward(loss.total)
        gradient_P = self._parameters.gradient
        self._edge.reduce(gradient_P)
        loss.figures["gradient_norm"] = clip_by_norm(gradient_P, self._algorithm.gradient_clip)
        self._apply(gradient_P, learning_rate)
        self.updates += 1
        self._move_target()
        return loss

    def _apply(self, gradient_P: Tensor, learning_rate: float) -> None:
        master_P, rounded_R = self._parameters.master, self._parameters.rounded
        before_P = None if self._scale_P is None else master_P.clone()
        self._algorithm.rule.apply(master_P, gradient_P, self._rule_state, learning_rate, rounded_R)
        if before_P is not None and self._scale_P is not None:
            torch.lerp(before_P, master_P, self._scale_P, out=master_P)
            self._parameters.refresh()

    def _move_target(self) -> None:
        how = self._algorithm.target
        if how is None or self._target is None or self.updates % how.every:
            return
        self._target.follow(self._parameters, how.rate)

    def weights(self) -> dict[str, np.ndarray]:
        """fp32 weights by name, in the ordinary layout."""
        return {name: _to_numpy(tensor) for name, tensor in self._parameters.tensors().items()}

    def target_weights(self) -> dict[str, np.ndarray]:
        """fp32 weights of the target network by name; empty where there is none."""
        tensors = {} if self._target is None else self._target.tensors()
        return {name: _to_numpy(tensor) for name, tensor in tensors.items()}

    def rule_state(self) -> dict[str, np.ndarray]:
        """State of the update rule: accumulators as `rule/parameter`, counters as `rule`."""
        arrays = {}
        for key, value in self._rule_state.items():
            if value.ndim == 0:
                arrays[key] = _to_numpy(value)
            else:
                arrays |= {
                    f"{key}/{name}": _to_numpy(part) for name, part in self._parameters.split(value).items()
                }
        return arrays

    def load(
        self, weights: Mapping[str, Any], rule_state: Mapping[str, Any], target: Mapping[str, Any]
    ) -> None:
        """Restores all. CheckpointError where names or shapes are not this network's."""
        load_weights(self._parameters, weights)
        if self._target is not None:
            load_weights(self._target, target)
        try:
            for key, value in self._rule_state.items():
                if value.ndim == 0:
                    value.copy_(torch.from_numpy(rule_state[key]))
                    continue
                for name, part in self._parameters.split(value).items():
                    stored = torch.from_numpy(rule_state[f"{key}/{name}"])
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


def _rate_scales(algorithm: Algorithm, parameters: FlatParameters) -> Tensor | None:
    """What each parameter's step is multiplied by, [P]; None where that is 1 for all."""
    scale_P = torch.ones_like(parameters.master)
    for name, part in parameters.split(scale_P).items():
        part.fill_(algorithm.rate_scale(name))
    return None if bool((scale_P == 1.0).all()) else scale_P


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().clone().numpy()
