"""The asynchronous system's learners on an accelerator: each acts and learns there, with parameters of the host.

Acting waits once a step, for the actions; parameters that are pulled meanwhile come without waiting. The loss waits for
nothing: what an update exchanges with the central store, `test_store_on_device.py` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from imitation import Traffic
from roles import Alone, System

from run_state import SMALL_REPLAYED, assert_same
from runs import ON_POLICY
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.learning.learner import Learner
from veldt.sampling.sampler import Sampler
from veldt.systems.asynchronous.graph import _AsynchronousLearner

SETTINGS: dict[str, Any] = {
    "learners": 2,
    "env_backend": "in-process",
    "alternate": "off",
    "actor_sync_interval": 2,
    "seed": 3,
}
ROLLOUTS = ON_POLICY | {"horizon": 5}
REPLAYED = SMALL_REPLAYED | {"buffer_size": 240}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a3c": ("a3c", ROLLOUTS),
    "an LSTM": ("a3c", ROLLOUTS | {"algorithm": "vtrace", "lstm": 8, "shared": True}),
    "appo": ("appo", ON_POLICY | {"batch_size": 40, "minibatches": 2, "epochs": 1}),
    "async-dqn": ("async-dqn", REPLAYED),
}


class Roles:
    """Two learners on `device`, which take turns."""

    def __init__(self, name: str, device: object, **settings: Any) -> None:
        recipe, own = RUNS[name]
        settings = {key: value for key, value in (SETTINGS | own | settings).items() if key != "device"}
        system = System(recipe, "CartPole-v1", device, **settings)
        self.store, rate_limiter = system.edges["store"], system.edges["rate_limiter"]
        self.learners = [
            _AsynchronousLearner(Alone(), plan, rate_limiter, self.store, system.edges.get("weights"))
            for plan in system.plans["learner"]
        ]

    def play(self, turns: int) -> None:
        for _ in range(turns):
            for learner in self.learners:
                learner.turn()

    def values(self) -> dict[str, np.ndarray]:
        found = {f"store {name}": value for name, value in self.store.client(0).copied().items()}
        for number, role in enumerate(self.learners):
            own = role._sampler_learner
            found |= {f"{number} {name}": value for name, value in own.learner.weights().items()}
            found |= {
                f"{number} target {name}": value for name, value in own.learner.target_weights().items()
            }
            found[f"{number} actions"] = own.slot.action
        return found

    @property
    def updates(self) -> int:
        return sum(role._sampler_learner.learner.updates for role in self.learners)


@contextmanager
def roles(name: str, device: object, **settings: Any) -> Iterator[Roles]:
    made = Roles(name, device, **settings)
    try:
        yield made
    finally:
        for role in made.learners:
            role.close()


@pytest.mark.parametrize("name", RUNS)
def test_the_values_are_the_cpus(name: str, device: torch.device) -> None:
    with roles(name, "cpu") as here, roles(name, device) as there:
        for each in (here, there):
            each.play(8)
        assert there.updates == here.updates > 6
        assert_same(here.values(), there.values())


def test_norms_and_cosines_change_no_bit(measured: list[dict[str, torch.Tensor]]) -> None:
    with roles("a3c", "cpu") as plain, roles("a3c", "cpu", log_norms=True, log_saturation=True) as logged:
        for each in (plain, logged):
            each.play(6)
        assert logged.updates == plain.updates > 4 and measured
        assert_same(plain.values(), logged.values())


@pytest.mark.parametrize("name", RUNS)
def test_a_step_waits_for_its_actions_and_an_update_for_the_store_alone(
    name: str, device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    acts, updates = traffic_of(Sampler, "_act"), traffic_of(Learner, "update")
    with roles(name, device) as there:
        there.play(6)
        parameters = there.store.client(0).copied()[PARAMETERS].shape
    for traffic in acts[12:]:
        assert [copy.dtype for copy in traffic.downloads] == [torch.int64]
        assert len(traffic.synchronisations) == 1
    assert len(updates) > 4
    for traffic in updates:
        assert [copy.shape for copy in traffic.downloads] == [parameters] and not traffic.waits
        assert [copy.shape for copy in traffic.uploads if copy.is_blocking] == [parameters]
    for traffic in updates[3:]:
        assert traffic.operations == updates[2].operations


def test_a_checkpoint_has_the_cpus_values(device: torch.device) -> None:
    groups = []
    for each in ("cpu", device):
        with roles("a3c", each) as made:
            made.play(4)
            first = made.learners[0]
            first._control.requested_snapshot = 1
            first.turn()
            (part,) = (said for said in first._control.said if getattr(said, "number", 0) == 1)
            groups.append(part.groups)
    assert groups[0].keys() == groups[1].keys() >= {"weights", "optimiser"}
    for name in ("weights", "optimiser"):
        assert_same(groups[0][name], groups[1][name])
