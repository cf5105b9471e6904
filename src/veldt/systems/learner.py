"""The learner: gradient, exchange, clip, update. All on flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Forward
from veldt.algorithms.rollout import Batch
from veldt.errors import CheckpointError
from veldt.exchange.gradients import GradientEdge
from veldt.functional.updates import clip_by_norm
from veldt.networks.flat import FlatParameters


class Learner:
    """Owns the parameters and the update rule's state.

    Args:
        forward: the network's forward pass, possibly compiled, in the precision it computes in.
        parameters: the network's.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        forward: Forward,
        parameters: FlatParameters,
        edge: GradientEdge,
    ) -> None:
        self._algorithm, self._forward, self._edge = algorithm, forward, edge
        self._parameters = parameters
        self._rule_state = algorithm.rule.state(parameters.master)
        self.updates = 0

    def update(self, batch: Batch, progress: float, learning_rate: float) -> dict[str, Tensor]:
        """One update of the parameters. Returns figures to log as tensors on the device (nothing is waited for)."""
        loss, figures = self._algorithm.loss(self._forward, batch, progress)
        self._parameters.backward(loss)
        gradient_P = self._parameters.gradient
        self._edge.reduce(gradient_P)
        figures["gradient_norm"] = clip_by_norm(gradient_P, self._algorithm.gradient_clip)
        self._algorithm.rule.apply(self._parameters.master, gradient_P, self._rule_state, learning_rate)
        self._parameters.refresh()
        self.updates += 1
        return figures

    def weights(self) -> dict[str, np.ndarray]:
        """fp32 weights by name, in the ordinary layout."""
        return {name: _to_numpy(tensor) for name, tensor in self._parameters.tensors().items()}

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

    def load(self, weights: Mapping[str, Any], rule_state: Mapping[str, Any]) -> None:
        """Restores both. CheckpointError where names or shapes are not this network's."""
        load_weights(self._parameters, weights)
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


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().clone().numpy()
