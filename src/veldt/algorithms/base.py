"""The interface between algorithms and systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from veldt.algorithms.rollout import Batch, Observation, Rollout
from veldt.functional.updates import UpdateRule

# A network's forward pass, possibly compiled.
Forward = Callable[[Observation], tuple[Tensor, Tensor]]


class Algorithm(Protocol):
    """Everything a system needs to know of what is learned.

    `progress` is the fraction of the training budget that is done, in [0, 1): schedules are functions of it, so that
    they cannot restart when a run does.
    """

    name: str
    noise: int  # uniform numbers an action takes
    rule: UpdateRule
    gradient_clip: float  # largest norm of the gradient; 0: no limit

    def horizon(self, num_simulators: int) -> int:
        """Steps each simulator makes between optimisation phases. UsageError where sizes do not divide."""

    def update_rows(self, num_simulators: int) -> int:
        """Rows of one update: what the network is given at once when it learns."""

    def network(self, build_torso: Callable[[], nn.Module], shared: bool) -> nn.Module:
        """Torso and heads."""

    def prepare_noise(self, uniform: Tensor) -> Tensor:
        """Uniform noise [..., noise] in the form `act` takes it, once for many steps."""

    def act(
        self, forward: Forward, observation: Observation, noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [N, ...] for N observations, and what to remember with them."""

    def best_action(self, forward: Forward, observation: Observation) -> Tensor:
        """The action without exploration."""

    def learning_rate(self, progress: float, batch: int) -> float:
        """The step size now, for phases of `batch` samples."""

    def minibatches(self, forward: Forward, rollout: Rollout, generator: torch.Generator) -> Iterator[Batch]:
        """One optimisation phase: a batch for each update, in order."""

    def loss(self, forward: Forward, batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of one update, and figures to log (without gradient)."""
