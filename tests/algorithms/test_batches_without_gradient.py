"""Targets and minibatches are computed without gradient, whether or not an algorithm of the user's own says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from q_tables import DISCRETE, transitions

from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.groups import TargetNetwork
from veldt.errors import UsageError
from veldt.learning.checked_results import checked_minibatches
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters


def batch_of(targets: Callable[..., Any], **declared: TargetNetwork) -> Any:
    """The batch that a learner gets from an algorithm with these targets."""
    mine = type("Mine", (DQN,), {"name": "mine", "targets": lambda self, *arguments: targets(*arguments)})
    own: DQN = mine(DQNConfig(), DISCRETE)

    def make() -> tuple[Any, FlatParameters]:
        network = torch.nn.Embedding(20, 4)
        return network, FlatParameters(network)

    network, parameters = make()
    return TargetNetworks(declared or own.target_networks, parameters, make).batch(
        own, network, transitions(np.random.default_rng(0), 8)
    )


def test_targets_have_no_gradient() -> None:
    estimates = batch_of(lambda forward, target, drawn: forward(drawn.next_observation).amax(-1))
    assert not estimates.requires_grad
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("targets", "declared", "sentence"),
    [
        (lambda *_: None, {}, "^mine: Mine.targets returned None: it must return the batch that `loss` gets"),
        (
            lambda forward, target, drawn: target["slow"](drawn.observation),
            {},
            "^the algorithm has no target network 'slow': `target_networks` has target$",
        ),
        (
            lambda forward, target, drawn: target(drawn.observation),
            {"slow": TargetNetwork(1, 1.0), "late": TargetNetwork(2, 1.0)},
            r"^target\(...\) was called, and the algorithm has 2 target networks: it is for a single one",
        ),
    ],
)
def test_wrong_targets(targets: Any, declared: dict[str, TargetNetwork], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        batch_of(targets, **declared)


def test_minibatches_have_no_gradient_and_updates_between_them_have() -> None:
    modes: list[bool] = []

    def minibatches() -> Iterator[int]:
        for batch in range(2):
            modes.append(torch.is_grad_enabled())
            yield batch
        modes.append(torch.is_grad_enabled())

    given: Any = object.__new__(DQN)
    assert [(batch, torch.is_grad_enabled()) for batch in checked_minibatches(minibatches(), given)] == [
        (0, True),
        (1, True),
    ]
    assert modes == [False, False, False]
