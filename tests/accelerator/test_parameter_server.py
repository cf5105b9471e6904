"""Gorila's optimiser and parameter shards, whose learner is on an accelerator.

An update waits for the device three times at most, and each for a reason:

    loss and norm   one copy: a gradient that is an outlier, or not finite, must not be sent
    gradient        one copy of the whole vector, of which each shard gets its part: the shards are other processes
    parameters      one copy back, when a pull is due and any part is newer; the device has no queued work by then
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from imitation import Traffic, recorded
from roles import Alone
from torch import nn

from veldt.algorithms.base import Algorithm, Loss
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.config.gorila_settings import GorilaConfig
from veldt.envs.spec import ActionSpec
from veldt.exchange.gradients import NoAllReduce
from veldt.exchange.parameter_partition import gradient_layouts, part_layouts, split_evenly
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.learning.learner import Learner
from veldt.learning.optimiser import GroupedRule
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters
from veldt.runtime.processes import forkserver
from veldt.systems.gorila.parameter_shard import ParameterShard
from veldt.systems.gorila.server_optimiser import ServerOptimiser

CPU = torch.device("cpu")
SHARDS = 3
ALGORITHMS: dict[str, Algorithm] = {
    "one group": DQN(
        DQNConfig(optimiser="adagrad", target_update_interval=20, training_intensity=1.0, batch_size=10),
        ActionSpec("discrete", sizes=(2,), start=(0,)),
    ),
    "two groups": DDPG(DDPGConfig(), ActionSpec("box", low=(-1.0,), high=(1.0,))),
}


def network(device: torch.device) -> tuple[Any, FlatParameters]:
    torch.manual_seed(0)
    made = nn.ModuleDict({"critic": nn.Linear(7, 5), "actor": nn.Linear(5, 3)}).to(device)
    return made, FlatParameters(made)


class Server:
    """Shards, and a learner on `device` whose loss is of random inputs."""

    def __init__(self, algorithm: Algorithm, device: torch.device, **settings: Any) -> None:
        self.network, self.parameters = network(device)
        self.bounds = split_evenly(len(self.parameters.fp32_params), SHARDS)
        context, groups = forkserver(["veldt.envs.worker", "gymnasium"]), algorithm.groups
        sizes = [end - first for first, end in self.bounds]
        self.gradients = [SlotRings(gradient_layouts(size, len(groups)), 1, 2, context) for size in sizes]
        self.parts = [SharedWeights(part_layouts(size), None) for size in sizes]
        self.consumers, self.shards = [edge.consumer() for edge in self.gradients], []
        whole = network(CPU)[1]
        rule = GroupedRule(groups, whole)
        state = rule.state(whole.fp32_params)
        for first, end in self.bounds:
            own = {
                name: value[first:end].clone() if value.ndim else value.clone()
                for name, value in state.items()
            }
            self.shards.append(ParameterShard(rule, first, whole.fp32_params[first:end].clone(), own))
        self.publish()
        control: Any = Alone()
        config = GorilaConfig(learners=1, parameter_shards=SHARDS, **settings)
        self.optimiser = ServerOptimiser(
            self.parameters, groups, self.gradients, self.parts, config, control, rank=0
        )
        self.optimiser.begin()
        self.targets = TargetNetworks(algorithm.target_networks, self.parameters, lambda: network(device))
        self.learner = Learner(
            algorithm,
            self.network,
            self.parameters,
            NoAllReduce(),
            self.targets,
            self.optimiser,
            version_of=lambda own: self.optimiser.version,
        )
        self.inputs = torch.Generator().manual_seed(1)

    def publish(self) -> None:
        for shard, part in zip(self.shards, self.parts, strict=True):
            part.publish(shard.version, shard.published())

    def serve(self) -> None:
        """Each shard applies what was sent to it, and publishes."""
        for shard, consumer in zip(self.shards, self.consumers, strict=True):
            while (received := consumer.take(0.0)) is not None:
                arrays = received.arrays
                gradient_N = torch.from_numpy(arrays["gradient"])
                shard.take(gradient_N, int(arrays["base"][0]), arrays["learning_rate"].tolist())
                consumer.release(received.ring)
        self.publish()

    def update(self) -> None:
        device = self.parameters.fp32_params.device
        x_N7 = torch.randn(6, 7, generator=self.inputs).to(device)
        self.learner.update(x_N7, 0.0, 0.01)


def of_squares(algorithm: Algorithm, monkeypatch: pytest.MonkeyPatch) -> Algorithm:
    """The algorithm with another loss: what is learned does not matter here."""

    def losses(forward: Any, x_N7: torch.Tensor, progress: float, due: Any) -> Loss:
        total = forward["actor"](forward["critic"](x_N7)).square().mean()
        by_group = dict.fromkeys(due, total) if len(algorithm.groups) > 1 else None
        return Loss(total, {}, by_group=by_group)

    monkeypatch.setattr(algorithm, "losses", losses)
    return algorithm


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_values_are_the_cpus(name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = of_squares(ALGORITHMS[name], monkeypatch)
    here, there = (Server(algorithm, each, learner_sync_interval=2) for each in (CPU, device))
    for number in range(12):
        for server in (here, there):
            server.update()
            if number % 3:  # else the gradients wait, as if the shards were busy
                server.serve()
    assert here.shards[0].version == 12 == there.shards[0].version
    for one, two in zip(here.shards, there.shards, strict=True):
        for key, value in one.state_arrays().items():
            np.testing.assert_array_equal(two.state_arrays()[key], value, key)
    for key, value in here.learner.weights().items():
        np.testing.assert_array_equal(there.learner.weights()[key], value, key)
    for key, value in here.learner.target_weights().items():
        np.testing.assert_array_equal(there.learner.target_weights()[key], value, key)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_update_copies_loss_and_norm_the_gradient_and_parameters_back(
    name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(of_squares(ALGORITHMS[name], monkeypatch), device, learner_sync_interval=2)
    size, updates = tuple(server.parameters.fp32_params.shape), list[Traffic]()
    for number in range(8):
        x_N7 = torch.randn(6, 7).to(device)
        with recorded() as traffic:
            server.learner.update(x_N7, 0.0, 0.01)
        updates.append(traffic)
        server.serve()
        assert [copy.shape for copy in traffic.downloads] == [(2,), size] and not traffic.waits
        assert [copy.shape for copy in traffic.uploads] == ([size] if number % 2 else [])
    assert (
        updates[-1].operations == updates[-3].operations and updates[-2].operations == updates[-4].operations
    )


def test_the_gradient_of_an_outlier_stays_on_the_device(device: torch.device) -> None:
    server = Server(ALGORITHMS["one group"], device, outlier_deviations=3.0)

    def apply(loss: float) -> Traffic:
        norm = torch.ones((), device=device)
        loss_and_norm = Loss(torch.tensor(loss).to(device), {"train/grad_norm": norm})
        with recorded() as traffic:
            server.optimiser.apply(server.parameters.gradient, {"all": 0.1}, loss_and_norm)
        server.serve()
        return traffic

    for value in np.random.default_rng(1).normal(5.0, 1.0, 120).clip(3.0, 7.0):
        apply(float(value))
    assert [copy.shape for copy in apply(50.0).downloads] == [(2,)]


def test_a_pull_that_finds_nothing_new_copies_nothing(device: torch.device) -> None:
    server = Server(ALGORITHMS["one group"], device)
    with recorded() as traffic:
        server.optimiser.pull()
    assert not traffic.uploads and not traffic.synchronisations
