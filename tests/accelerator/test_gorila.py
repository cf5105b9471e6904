"""Gorila's learners on an accelerator: bundles, which act there too, and learners that get batches from replay shards.

What an update exchanges with the parameter shards, `test_parameter_server.py` counts: loss and norm, the gradient, and
parameters back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch
from imitation import Traffic
from roles import Alone, System

from run_state import SMALL_REPLAYED, assert_same
from veldt.algorithms.dqn import DQN
from veldt.exchange.parameter_partition import ShardedWeights
from veldt.learning.learner import Learner
from veldt.sampling.sampler import Sampler
from veldt.systems.gorila.learner import _GorilaLearner
from veldt.systems.gorila.parameter_shard import _initial_state
from veldt.systems.gorila.worker import _GorilaWorker
from veldt.systems.roles.actor import _Actor
from veldt.systems.roles.replay_shard import ReplayShard

SETTINGS: dict[str, Any] = {
    **{name: value for name, value in SMALL_REPLAYED.items() if name not in ("device", "log_every")},
    "buffer_size": 240,
    "learners": 2,
    "parameter_shards": 2,
    "actor_sync_interval": 4,
    "evaluator_share": 0.0,
    "seed": 3,
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thread, nothing arrives while it waits."""
    for name in ("replay_learner._WAIT_S", "replay_serving._WAIT_S"):
        monkeypatch.setattr(f"veldt.systems.roles.{name}", 0.0)


class Server:
    """The parameter shards of a system, which have a turn at each heartbeat of a learner."""

    def __init__(self, system: System) -> None:
        edges, plans = system.edges, system.plans["server"]
        self.gradients, self.parts = (
            [edges[f"{what} {plan.number}"] for plan in plans] for what in ("gradients", "part")
        )
        self._consumers = [edge.consumer() for edge in self.gradients]
        self.shards = [
            _initial_state(Alone(), plan, part, edges[f"state {plan.number}"])
            for plan, part in zip(plans, self.parts, strict=True)
        ]
        self._publish()

    def turn(self) -> None:
        for shard, consumer in zip(self.shards, self._consumers, strict=True):
            while (received := consumer.take(0.0)) is not None:
                arrays = received.arrays
                gradient_N = torch.from_numpy(arrays["gradient"])
                shard.take(gradient_N, int(arrays["base"][0]), arrays["learning_rate"].tolist())
                consumer.release(received.ring)
        self._publish()

    def _publish(self) -> None:
        for shard, part in zip(self.shards, self.parts, strict=True):
            part.publish(shard.version, shard.published())


class Served(Alone):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self.heartbeat = server.turn  # type: ignore[method-assign]


class Roles(ABC):
    """Two learners on `device`, and a parameter server."""

    def __init__(self, device: object, settings: dict[str, Any]) -> None:
        self.system = System("gorila", "CartPole-v1", device, **settings)
        self.server, self.rate_limiter = Server(self.system), self.system.edges["rate_limiter"]

    @property
    @abstractmethod
    def learners(self) -> list[Learner]: ...

    @abstractmethod
    def play(self, turns: int) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def values(self) -> dict[str, np.ndarray]:
        found = {}
        for number, shard in enumerate(self.server.shards):
            found |= {f"shard {number} {name}": value for name, value in shard.state_arrays().items()}
        for number, learner in enumerate(self.learners):
            found |= {f"{number} {name}": value for name, value in learner.weights().items()}
            found |= {f"{number} target {name}": value for name, value in learner.target_weights().items()}
        return found


class Bundles(Roles):
    def __init__(self, device: object, **more: Any) -> None:
        super().__init__(device, SETTINGS | {"env_backend": "in-process", "alternate": "off"} | more)
        server = self.server
        self._workers = [
            _GorilaWorker(Served(server), plan, self.rate_limiter, server.gradients, server.parts)
            for plan in self.system.plans["learner"]
        ]

    @property
    def learners(self) -> list[Learner]:
        return [worker._sampler_learner.learner for worker in self._workers]

    def play(self, turns: int) -> None:
        for _ in range(turns):
            for worker in self._workers:
                worker.turn()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


class WithActors(Roles):
    def __init__(self, device: object, **more: Any) -> None:
        super().__init__(device, SETTINGS | {"actors": 2, "shards": 1} | more)
        server, edges, plans = self.server, self.system.edges, self.system.plans
        batches, slots = [edges["batches 0"], edges["batches 1"]], edges["steps 0"]
        self._shard = ReplayShard(Alone(), plans["replay"][0], slots, batches)
        self._learners = [
            _GorilaLearner(
                Served(server), plan, edge.client(), self.rate_limiter, server.gradients, server.parts
            )
            for plan, edge in zip(plans["learner"], batches, strict=True)
        ]
        weights = ShardedWeights(server.parts)
        self._actors = [
            _Actor(Alone(), plan, weights, slots.producer(plan.ring), self.rate_limiter)
            for plan in plans["actor"]
        ]

    @property
    def learners(self) -> list[Learner]:
        return [role._learner for role in self._learners]

    def play(self, turns: int) -> None:
        for _ in range(turns):
            for actor in self._actors:
                actor.act()
            for _ in range(4):
                self._shard.step()
                for role in self._learners:
                    role.step()
                    self.server.turn()

    def close(self) -> None:
        for actor in self._actors:
            actor.close()


KINDS: dict[str, type[Roles]] = {"bundles": Bundles, "actors": WithActors}


def roles(kind: str, device: object, **more: Any) -> closing[Roles]:
    return closing(KINDS[kind](device, **more))  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_are_the_cpus(kind: str, device: torch.device) -> None:
    with roles(kind, "cpu") as here, roles(kind, device) as there:
        for each in (here, there):
            each.play(12)
        updates = [[learner.updates for learner in each.learners] for each in (here, there)]
        assert updates[0] == updates[1] and min(updates[0]) > 2
        assert_same(here.values(), there.values())


def test_norms_and_cosines_change_no_bit(measured: list[dict[str, torch.Tensor]]) -> None:
    on = {"log_norms": True, "log_saturation": True}
    with roles("bundles", "cpu") as plain, roles("bundles", "cpu", **on) as logged:
        for each in (plain, logged):
            each.play(12)
        assert sum(learner.updates for learner in logged.learners) > 4 and measured
        assert_same(plain.values(), logged.values())


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_waits_for_what_it_sends_alone(
    kind: str, device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    updates, losses = traffic_of(Learner, "update"), traffic_of(DQN, "losses")
    with roles(kind, device) as there:
        there.play(12)
        size = tuple(there.learners[0]._parameters.fp32_params.shape)
    assert len(updates) == len(losses) > 4
    for traffic in losses:
        assert not traffic.synchronisations and not traffic.uploads
        assert traffic.operations == losses[0].operations
    for traffic in updates:
        assert [copy.shape for copy in traffic.downloads] == [(2,), size] and not traffic.waits


def test_a_step_of_a_bundle_waits_for_its_actions_alone(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    acts = traffic_of(Sampler, "_act")
    with roles("bundles", device) as there:
        there.play(4)
    without_a_pull = [traffic for traffic in acts if not any(copy.is_blocking for copy in traffic.uploads)]
    assert len(without_a_pull) >= len(acts) // 2
    for traffic in without_a_pull:
        assert [copy.dtype for copy in traffic.downloads] == [torch.int64]
        assert len(traffic.synchronisations) == 1


def test_actors_have_no_device(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    acts = traffic_of(_Actor, "act")
    with roles("actors", device) as there:
        there.play(3)
    assert len(acts) == 6 and not any(traffic.operations or traffic.uploads for traffic in acts)
