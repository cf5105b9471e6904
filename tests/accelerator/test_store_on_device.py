"""The asynchronous system's optimiser on an accelerator: the gradient is copied to the host once, parameters back once.

The central store is in the host's memory, and the host updates it: the rule's state, which is larger than the gradient,
stays there. So an update has two synchronisations, both outside of the chunks' locks: other learners wait for a chunk
while the host computes, but not for this learner's device.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from imitation import Traffic, recorded
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Algorithm
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.envs.spec import ActionSpec
from veldt.exchange.central_store import CentralStore, CentralStoreClient, CentralStoreSpec, Chunk
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.learning.optimiser import GroupedRule
from veldt.networks.flat import FlatParameters

CPU = torch.device("cpu")
SIZE = 7 * 5 + 5 + 5 * 3 + 3
ALGORITHMS: dict[str, Algorithm] = {
    "rmsprop": A2C(A2CConfig(), ActionSpec("discrete", sizes=(2,), start=(0,))),
    "adam in two groups": DDPG(
        DDPGConfig(actor_learning_rate=1e-4), ActionSpec("box", low=(-1.0,), high=(1.0,))
    ),
}


class Learners:
    """Two of them on one store of three chunks, with their networks on `device`; the first layer has a bf16 copy."""

    def __init__(self, algorithm: Algorithm, device: torch.device, local_steps: int) -> None:
        self.device, self.parameters = device, []
        for _ in range(2):
            torch.manual_seed(0)
            network = nn.ModuleDict({"critic": nn.Linear(7, 5), "actor": nn.Linear(5, 3)}).to(device)
            self.parameters.append(FlatParameters(network, [network["critic"]]))
        first = self.parameters[0]
        state = GroupedRule(algorithm.groups, first).state(first.fp32_params)
        initial = {PARAMETERS: first.fp32_params, **state}
        spec = CentralStoreSpec(
            {name: value.cpu().numpy().copy() for name, value in initial.items()}, 3, 60.0
        )
        self.store, self.rates = (
            CentralStore(spec, None),
            dict.fromkeys(GroupedRule(algorithm.groups, first).members, 0.01),
        )
        self.optimisers = [
            CentralOptimiser(algorithm, own, self.store.client(rank), local_steps)
            for rank, own in enumerate(self.parameters)
        ]

    def apply(self, learner: int, gradient_P: Tensor) -> None:
        self.optimisers[learner].apply(gradient_P.to(self.device, copy=True), self.rates)

    def values(self) -> dict[str, np.ndarray]:
        """All parameters and states, of the store and of both learners."""
        found = {f"central {name}": value for name, value in self.store.client(0).copied().items()}
        for number, (own, optimiser) in enumerate(zip(self.parameters, self.optimisers, strict=True)):
            found[f"{number} parameters"] = own.fp32_params.cpu().numpy()
            found[f"{number} bf16"] = own.bf16_copy.cpu().float().numpy()
            found |= {f"{number} {name}": value.cpu().numpy() for name, value in optimiser.state.items()}
        return {name: value.copy() for name, value in found.items()}


def gradients(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(SIZE, generator=generator) for _ in range(count)]


@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_values_are_the_cpus(name: str, local_steps: int, device: torch.device) -> None:
    both = [Learners(ALGORITHMS[name], each, local_steps) for each in (CPU, device)]
    for number, gradient_P in enumerate(gradients(14)):
        for learners in both:
            learners.apply(number % 3 % 2, gradient_P)
            if number == 9:
                learners.optimisers[1].catch_up()
    here, there = (learners.values() for learners in both)
    assert here.keys() == there.keys()
    for key, value in here.items():
        np.testing.assert_array_equal(there[key], value, key)


@pytest.fixture
def under_lock(monkeypatch: pytest.MonkeyPatch) -> list[Traffic]:
    """The traffic while each chunk was locked."""
    seen: list[Traffic] = []
    original = CentralStoreClient.chunks

    def chunks(self: CentralStoreClient) -> Iterator[Chunk]:
        for chunk in original(self):
            with recorded() as traffic:
                yield chunk
            seen.append(traffic)

    monkeypatch.setattr(CentralStoreClient, "chunks", chunks)
    return seen


def sizes(traffic: Traffic) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return [copy.shape for copy in traffic.downloads], [copy.shape for copy in traffic.uploads]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_update_copies_a_gradient_there_and_parameters_back(
    name: str, device: torch.device, under_lock: list[Traffic]
) -> None:
    learners = Learners(ALGORITHMS[name], device, 1)
    updates = []
    for gradient_P in gradients(4):
        on_device = gradient_P.to(device)
        with recorded() as traffic:
            learners.optimisers[0].apply(on_device, learners.rates)
        updates.append(traffic)
        assert sizes(traffic) == ([(SIZE,)], [(SIZE,)]) and not traffic.waits
        assert traffic.operations == updates[0].operations
    assert len(under_lock) == 3 * len(updates)
    assert not any(traffic.synchronisations or traffic.uploads for traffic in under_lock)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_local_steps_wait_for_nothing_and_an_exchange_copies_all_values_once(
    name: str, device: torch.device, under_lock: list[Traffic]
) -> None:
    learners = Learners(ALGORITHMS[name], device, 2)
    optimiser = learners.optimisers[0]
    shapes = [(SIZE,), *(tuple(value.shape) for value in optimiser.state.values())]
    exchanges = []
    for number, gradient_P in enumerate(gradients(6)):
        on_device = gradient_P.to(device)
        with recorded() as traffic:
            optimiser.apply(on_device, learners.rates)
        if number % 2 == 0:
            assert not traffic.synchronisations and not traffic.uploads
            continue
        exchanges.append(traffic)
        downloads, uploads = sizes(traffic)
        assert sorted(downloads) == sorted(shapes) and not traffic.waits
        assert uploads == [shape for shape in shapes if shape]  # a counter is an argument of a kernel
        assert traffic.operations == exchanges[0].operations
    assert len(under_lock) == 3 * len(exchanges)
    assert not any(traffic.synchronisations or traffic.uploads for traffic in under_lock)


def test_new_parameters_are_pulled_without_waiting(device: torch.device) -> None:
    learners = Learners(ALGORITHMS["rmsprop"], device, 1)
    learners.apply(0, gradients(1)[0])
    with recorded() as traffic:
        learners.optimisers[1].catch_up()
    assert not traffic.synchronisations and sizes(traffic) == ([], [(SIZE,)])
    assert torch.equal(learners.parameters[0].fp32_params, learners.parameters[1].fp32_params)
