"""A learner's side of the parameter server, without processes: what it sends, pulls, discards and waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fork_servers import env_context
from veldt.algorithms.base import Loss
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.groups import ParameterGroup
from veldt.config.gorila_settings import GorilaConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import VeldtError
from veldt.exchange.gradients import NoAllReduce
from veldt.exchange.parameter_partition import (
    COUNTS,
    PARAMETERS,
    gradient_layouts,
    part_layouts,
    split_evenly,
)
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.functional.updates import Adam
from veldt.learning.learner import Learner
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters
from veldt.systems.gorila.server_optimiser import ServerOptimiser

SHARDS, DEPTH = 3, 2


class StubControl:
    restart_count, requested_snapshot, stopping = 0, 0, False

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.heartbeats = 0

    def heartbeat(self) -> None:
        self.heartbeats += 1
        self.stopping = self.heartbeats > 3

    def sleep(self, seconds: float) -> None:
        pass

    def send(self, message: Any) -> None:
        self.said.append(message)


class Server:
    """Edges of shards that have nobody in them."""

    def __init__(self, **settings: Any) -> None:
        torch.manual_seed(0)
        self.parameters = FlatParameters(nn.Linear(6, 4))
        self.bounds = split_evenly(len(self.parameters.fp32_params), SHARDS)
        context = env_context()
        sizes = [end - first for first, end in self.bounds]
        self.gradients = [SlotRings(gradient_layouts(size, 1), 2, DEPTH, context) for size in sizes]
        self.parts = [SharedWeights(part_layouts(size), None) for size in sizes]
        self.control = StubControl()
        config = GorilaConfig(learners=2, parameter_shards=SHARDS, **settings)
        control: Any = self.control
        self.consumers = [edge.consumer() for edge in self.gradients]
        self.publish(0)
        self.optimiser = ServerOptimiser(
            self.parameters,
            [ParameterGroup("all", Adam())],
            self.gradients,
            self.parts,
            config,
            control,
            rank=1,
        )
        self.optimiser.begin()

    def publish(self, version: int, counts: tuple[int, int, int] = (0, 0, 0)) -> None:
        """Shard s says version + s, and parameters that are their version."""
        for shard, (first, end) in enumerate(self.bounds):
            values = np.full(end - first, version + shard, np.float32)
            arrays = {PARAMETERS: values, COUNTS: np.array(counts, np.int64)}
            self.parts[shard].publish(version + shard, arrays)

    def taken(self) -> list[tuple[list[float], int, float]]:
        """Of each shard the gradient that came, its version and step size."""
        found = []
        for consumer in self.consumers:
            taken = consumer.take(0.0)
            assert taken is not None and taken.ring == 1
            arrays = taken.arrays
            values = arrays["gradient"].tolist(), int(arrays["base"][0]), float(arrays["learning_rate"][0])
            found.append(values)
            consumer.release(1)
        return found


def loss_of(value: float, norm: float = 1.0) -> Loss:
    return Loss(torch.tensor(value), {"train/grad_norm": torch.tensor(norm)})


def test_each_shard_gets_its_part_of_the_gradient_with_the_version_of_that_part() -> None:
    server = Server()
    gradient_P = torch.arange(28, dtype=torch.float32)
    server.optimiser.apply(gradient_P, {"all": 0.25}, loss_of(1.0))
    for shard, (values, base, rate) in enumerate(server.taken()):
        first, end = server.bounds[shard]
        assert values == list(map(float, range(first, end))) and (base, rate) == (shard, 0.25)
    assert server.optimiser.version == 0, "the least of all parts"


@pytest.mark.parametrize("learner_sync_interval", [1, 3])
def test_the_newest_parameters_are_pulled_every_sync_interval(learner_sync_interval: int) -> None:
    server = Server(learner_sync_interval=learner_sync_interval)
    server.publish(5)
    for number in range(1, 2 * learner_sync_interval + 1):
        server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(1.0))
        server.taken()
        assert server.optimiser.version == (5 if number >= learner_sync_interval else 0)
    fp32_params = server.parameters.fp32_params
    assert all(
        (fp32_params[first:end] == 5 + shard).all() for shard, (first, end) in enumerate(server.bounds)
    )


def test_the_gradient_of_an_outlier_is_not_sent_but_counted() -> None:
    server, losses = Server(outlier_deviations=3.0), np.random.default_rng(1).normal(5.0, 1.0, 120)
    for loss in losses.clip(3.0, 7.0):
        server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(float(loss)))
        server.taken()
    server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(50.0))
    assert all(consumer.take(0.0) is None for consumer in server.consumers)
    assert server.optimiser.metrics()["system/outlier_gradients"] == 1.0
    server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(5.0))
    server.taken()


def test_a_warning_gives_the_rate_of_outliers() -> None:
    """Losses that grow without end are all beyond what came before."""
    server = Server(outlier_deviations=0.1)
    for number in range(1000):
        server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(float(number)))
        for consumer in server.consumers:
            if consumer.take(0.0) is not None:
                consumer.release(1)
    assert server.optimiser.metrics()["system/outlier_gradient_share"] == 1.0
    (said,) = server.control.said
    assert said.text.startswith("learner 1 discards 100% of its gradients")
    assert "more than 0.1 standard deviations" in said.text and "--outlier-deviations" in said.text


def test_a_learner_sends_heartbeats_while_a_shards_ring_is_full_and_stops_on_request() -> None:
    server = Server()
    for _ in range(DEPTH):
        server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(1.0))
    server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss_of(1.0))
    assert server.control.heartbeats > 3 and (server.gradients[0].waiting <= DEPTH).all()


@pytest.mark.parametrize("loss", [loss_of(float("nan")), loss_of(float("inf")), loss_of(1.0, float("nan"))])
def test_a_gradient_that_is_not_finite_is_never_sent(loss: Loss) -> None:
    server = Server()
    with pytest.raises(VeldtError, match="training has diverged"):
        server.optimiser.apply(torch.zeros(28), {"all": 0.1}, loss)
    assert all(consumer.take(0.0) is None for consumer in server.consumers)


def test_a_warning_gives_the_rate_of_stale_gradients() -> None:
    server = Server(max_staleness=1)
    server.optimiser._rank = 0
    for number in range(1, 6):
        server.publish(number, (100 * number, 80 * number, 0))
        server.optimiser.pull()
    assert server.optimiser.metrics()["system/stale_gradient_share"] == 0.8
    (said,) = server.control.said
    assert "80% of all gradients are discarded" in said.text and "--max-staleness" in said.text


def test_the_target_network_moves_by_the_updates_of_all_learners() -> None:
    """Of 10 to a renewal; this learner makes one for each 4 of the server's."""
    server = Server()
    algorithm = DQN(
        DQNConfig(batch_size=1, training_intensity=1.0, target_update_interval=10),
        ActionSpec("discrete", sizes=(2,), start=(0,)),
    )
    assert algorithm.target_networks["target"].every == 10
    weight = server.parameters._parameters[0]
    algorithm.loss = lambda *_: Loss(weight.sum(), {})  # type: ignore[method-assign]
    target = FlatParameters(other := nn.Linear(6, 4))
    targets = TargetNetworks(algorithm.target_networks, server.parameters, lambda: (other, target))
    learner = Learner(
        algorithm,
        lambda: None,
        server.parameters,
        NoAllReduce(),
        targets,
        server.optimiser,
        version_of=lambda own: server.optimiser.version,
    )
    learner.updates = 0
    renewed_at = []
    for number in range(1, 12):
        server.publish(4 * number)
        before = target.fp32_params.clone()
        learner.update(None, 0.0, 0.1)
        server.taken()
        assert learner.version == 4 * number and learner.updates == number
        if (target.fp32_params != before).any():
            renewed_at.append(4 * number)
    assert renewed_at == [12, 20, 32, 40]
    before = target.fp32_params.clone()
    server.publish(35)  # a shard that was lost with its node begins from what was read of it
    learner.update(None, 0.0, 0.1)
    server.taken()
    assert learner.version == 35 and (target.fp32_params == before).all()
    server.publish(41)
    learner.update(None, 0.0, 0.1)
    assert (target.fp32_params != before).any()
