"""The learner: gradient, all-reduce, clipping, update; all on flat vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.algorithms.base import Algorithm, Forward, Loss
from veldt.errors import ARRAYS_DO_NOT_FIT, CheckpointError, UsageError, diverged
from veldt.exchange.gradients import GradientEdge
from veldt.functional.updates import clip_by_norm
from veldt.learning.checked_loss import checked_loss, gradient_failed
from veldt.learning.diagnostics import Diagnostics
from veldt.learning.optimiser import GroupedRule, LocalOptimiser, Optimiser
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters
from veldt.user_code.attribution import is_by_user


class Learner:
    """Owns the parameters, the optimiser and, if the algorithm has any, the target networks.

    Args:
        forward: the network's forward pass, possibly compiled, in its compute precision.
        parameters: the network's parameters.
        targets: the algorithm's target networks; None: it has none.
        optimiser: applies gradients to the parameters; default: the algorithm's update rules in this process.
        version_of: maps the number of updates made here to the number of all updates of these parameters.
        diagnostics: measures updates for `--log-norms` and `--log-saturation`.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        forward: Forward,
        parameters: FlatParameters,
        edge: GradientEdge,
        targets: TargetNetworks | None = None,
        optimiser: Optimiser | None = None,
        version_of: Callable[[int], int] = lambda own: own,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        self._algorithm, self._forward, self._edge = algorithm, forward, edge
        self._parameters = parameters
        self._targets = targets
        self._groups = GroupedRule(algorithm.groups, parameters)
        self._optimiser = optimiser or LocalOptimiser(algorithm, parameters)
        self._version_of = version_of
        self._diagnostics = diagnostics or Diagnostics(parameters)
        self._updates = 0
        self._checked_version = 0  # the version at the last check whether target networks have to move
        self._updated_version = 0

    @property
    def updates(self) -> int:
        """Updates made by this learner."""
        return self._updates

    @updates.setter
    def updates(self, updates: int) -> None:
        """Sets the counter, when a run is resumed."""
        self._updates = updates
        self._checked_version = self.version

    @property
    def version(self) -> int:
        """All updates of these parameters so far, including those of other learners."""
        return self._version_of(self._updates)

    @property
    def updated_version(self) -> int:
        """The version that the last update was applied to; later than that of its forward pass if others updated."""
        return self._updated_version

    def update(self, batch: Any, progress: float, learning_rate: float) -> Loss:
        """Makes one update, without synchronising with the device: metrics and priorities are tensors there.

        Args:
            batch: what the algorithm's `loss` takes.
            progress: fraction of the training budget that is done.
            learning_rate: of the parameter groups without their own.
        """
        before = self.version
        due = self._groups.due(self._updates + 1)
        self._diagnostics.before_backward(batch, lambda half: self._reduced_gradient(half, progress, due))
        loss = self._reduced_gradient(batch, progress, due)
        measured = self._diagnostics.after_backward()
        gradient_P = self._parameters.gradient
        norm = clip_by_norm(gradient_P, self._algorithm.max_grad_norm)
        self._groups.clip(gradient_P)
        metrics = {**loss.metrics, "train/loss": loss.total.detach(), "train/grad_norm": norm}
        loss = loss._replace(metrics=metrics | measured)
        self._optimiser.apply(gradient_P, self._groups.rates(due, progress, learning_rate), loss)
        self._updates += 1
        # If the gradient is sent to a parameter server, the version may not have changed yet.
        self._updated_version = max(before, self.version - 1)
        self._move_targets()
        return loss._replace(metrics=loss.metrics | self._diagnostics.after_update())

    def _reduced_gradient(self, batch: Any, progress: float, due: Sequence[str]) -> Loss:
        """Computes the gradient of a batch, of which each of the learners at the edge has a part."""
        loss = checked_loss(self._algorithm.losses(self._forward, batch, progress, due), self._algorithm)
        self._backward(loss, due)
        self._edge.reduce(self._parameters.gradient, loss.rows)
        return loss

    def _backward(self, loss: Loss, due: Sequence[str]) -> None:
        try:
            self._compute_gradient(loss, due)
        except RuntimeError as error:  # of torch, about the operations that the loss was computed by
            if not is_by_user(self._algorithm):
                raise
            raise gradient_failed(error, self._algorithm) from error

    def _compute_gradient(self, loss: Loss, due: Sequence[str]) -> None:
        if loss.by_group is None:
            self._parameters.backward(loss.total)
            return
        names = self._groups.members
        wrong = [name for name in loss.by_group if name not in names]
        if wrong or (wrong := [name for name in due if name not in loss.by_group]):
            raise UsageError(
                f"{self._algorithm.name} returned losses of the parameter groups {', '.join(loss.by_group) or 'none'}: "
                f"{f'that of {wrong[0]} is missing' if wrong[0] in names else f'there is no group {wrong[0]}'}; return "
                f"a loss for each group that moves in this update, {', '.join(due)}"
            )
        due_losses = {name: loss.by_group[name] for name in due}
        self._parameters.backward_by_group(due_losses, names)

    def renew_targets(self) -> None:
        """Copies the parameters to the target networks."""
        if self._targets is not None:
            self._targets.renew()

    def _move_targets(self) -> None:
        before, self._checked_version = self._checked_version, self.version
        if self._targets is not None:
            self._targets.move(before, self._checked_version)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns fp32 weights by name, in the standard layout."""
        return {name: _to_numpy(tensor) for name, tensor in self._parameters.tensors().items()}

    def target_weights(self) -> dict[str, np.ndarray]:
        """Returns fp32 weights of the target networks as `target/parameter`; empty if there are none."""
        tensors = {} if self._targets is None else self._targets.tensors()
        return {name: _to_numpy(tensor) for name, tensor in tensors.items()}

    def optimiser_state(self) -> dict[str, np.ndarray]:
        """Returns the update rule's state: accumulators as `rule/parameter`, counters as `rule`."""
        return state_by_parameter_name(self._parameters, self._optimiser.state)

    def load(
        self, weights: Mapping[str, Any], rule_state: Mapping[str, Any], targets: Mapping[str, Any]
    ) -> None:
        """Restores everything. Raises CheckpointError if names or shapes do not match this network."""
        load_weights(self._parameters, weights)
        if self._targets is not None:
            self._targets.load(targets)
        load_state(self._parameters, self._optimiser.state, rule_state)


def by_parameter_name(parameters: FlatParameters, vector_P: Tensor) -> dict[str, np.ndarray]:
    """Returns a copy of a vector like the parameters, by parameter name, in the standard layout."""
    return {name: _to_numpy(part) for name, part in parameters.split(vector_P).items()}


def state_by_parameter_name(parameters: FlatParameters, state: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Returns a copy of an update rule's state: accumulators as `rule/parameter`, counters as `rule`."""
    arrays = {}
    for key, value in state.items():
        if value.ndim == 0:
            arrays[key] = _to_numpy(value)
        else:
            arrays |= {f"{key}/{name}": array for name, array in by_parameter_name(parameters, value).items()}
    return arrays


def check_finite(
    step: int, weights: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray], whose: str = ""
) -> None:
    """Raises VeldtError if a checkpoint's parameters or rule state are not finite: training could not continue.

    A network's buffers are not checked. (Metrics are checked only at intervals; a checkpoint may come before that.)

    Args:
        whose: a word and a space before "parameters" in the message; "" for those of the network that acts.
    """
    learned = {name.partition("/")[2] for name in state} & weights.keys()
    for array in (*state.values(), *(weights[name] for name in learned)):
        if not np.isfinite(array).all():
            raise diverged(f"{whose}parameters are not finite at step {step:,}")


def load_state(parameters: FlatParameters, state: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> None:
    """Copies the result of `state_by_parameter_name` into `state`. Raises CheckpointError if names or shapes differ."""
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
    except ARRAYS_DO_NOT_FIT as error:
        raise CheckpointError(
            f"the checkpoint's optimiser state does not fit this network: {_mismatch(error)}"
        ) from None


def load_weights(parameters: FlatParameters, weights: Mapping[str, Any]) -> None:
    """Copies a checkpoint's weights into a network's parameters."""
    try:
        parameters.load({name: torch.from_numpy(array) for name, array in weights.items()})
    except ARRAYS_DO_NOT_FIT as error:
        raise CheckpointError(
            f"the checkpoint's weights do not fit this network: {_mismatch(error)}; the network's code has changed "
            "since, or the environment's observations or actions have other shapes than those that the run began with"
        ) from None


def _mismatch(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().clone().numpy()
