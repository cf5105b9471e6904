"""IMPALA's learner on an accelerator: unrolls of actors, V-trace, published weights.

An update waits for nothing. Weights that are published are copied to the host: one vector, which waits for the update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from imitation import Traffic
from roles import Alone, System

from veldt.learning.learner import Learner
from veldt.systems.impala.learner import _ImpalaLearner
from veldt.systems.roles.actor import _Actor

SETTINGS: dict[str, Any] = {
    "num_envs": 4,
    "actors": 2,
    "horizon": 5,
    "unrolls": 4,
    "actor_sync_interval": 1,
    "evaluator_share": 0.0,
    "seed": 3,
}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a discrete action": ("CartPole-v1", {}),
    "an LSTM": ("CartPole-v1", {"lstm": 8, "shared": True}),
    "a replay of unrolls": ("CartPole-v1", {"replay_unrolls": 8, "replay_share": 0.5}),
    "normalisation": ("environments:lopsided_box", {"normalise_observations": True}),
}


class Roles:
    """A learner on `device`, and its actors."""

    def __init__(self, name: str, device: object, **settings: Any) -> None:
        env, own = RUNS[name]
        system = System("impala", env, device, **SETTINGS | own | settings)
        weights, slots, rate_limiter = (system.edges[key] for key in ("weights", "unrolls 0", "rate_limiter"))
        self.learner = _ImpalaLearner(
            Alone(), system.plans["learner"][0], weights, slots.consumer(), rate_limiter
        )
        self.actors = [
            _Actor(Alone(), plan, weights, slots.producer(plan.ring), rate_limiter)
            for plan in system.plans["actor"]
        ]

    def play(self, turns: int) -> None:
        """In each turn every actor sends a slot, and the learner takes them."""
        for _ in range(turns):
            for actor in self.actors:
                actor.act()
            for _ in self.actors:
                self.learner.step()

    def values(self) -> dict[str, np.ndarray]:
        learner = self.learner._learner
        found = learner.weights() | {
            f"rule {name}": value for name, value in learner.optimiser_state().items()
        }
        for number, actor in enumerate(self.actors):
            found |= {f"{number} {name}": value for name, value in actor._policy._arrays.items()}
            found[f"{number} actions"] = actor._slot.action
        return found

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


def assert_same_values(first: Roles, second: Roles) -> None:
    one, two = first.values(), second.values()
    assert one.keys() == two.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(two[key], value, key)


@pytest.mark.parametrize("name", RUNS)
def test_the_values_are_the_cpus(name: str, device: torch.device) -> None:
    here, there = (Roles(name, each) for each in ("cpu", device))
    try:
        for each in (here, there):
            each.play(5)
        assert here.learner._learner.updates == there.learner._learner.updates >= 5
        assert_same_values(here, there)
    finally:
        here.close()
        there.close()


@pytest.mark.parametrize("name", ["a discrete action", "an LSTM", "a replay of unrolls"])
def test_norms_and_cosines_change_no_bit(name: str, measured: list[dict[str, torch.Tensor]]) -> None:
    plain, logged = Roles(name, "cpu"), Roles(name, "cpu", log_norms=True, log_saturation=True)
    try:
        for each in (plain, logged):
            each.play(5)
        assert logged.learner._learner.updates == plain.learner._learner.updates == len(measured) >= 5
        assert logged.learner._metrics._counts["train/gradient_cosine"] == len(measured)
        assert_same_values(plain, logged)
    finally:
        plain.close()
        logged.close()


@pytest.mark.parametrize("name", ["a discrete action", "an LSTM", "a replay of unrolls"])
def test_an_update_waits_for_nothing_and_has_static_shapes(
    name: str, device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    updates, steps = traffic_of(Learner, "update"), traffic_of(_ImpalaLearner, "_learn")
    roles = Roles(name, device, publish_every=2)
    try:
        roles.play(6)
    finally:
        roles.close()
    assert len(updates) == len(steps) >= 6
    parameters = tuple(roles.learner._parameters.fp32_params.shape)
    for number, (update, step) in enumerate(zip(updates, steps, strict=True), 1):
        assert not update.synchronisations and not update.uploads
        assert update.operations == updates[0].operations and step.uploads == steps[0].uploads
        published = [parameters] if number % 2 == 0 else []
        assert [copy.shape for copy in step.downloads] == published
        assert len(step.synchronisations) == len(published)


def test_actors_have_no_device(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    acts = traffic_of(_Actor, "act")
    roles = Roles("a discrete action", device)
    try:
        roles.play(3)
    finally:
        roles.close()
    assert len(acts) == 6 and not any(traffic.operations or traffic.uploads for traffic in acts)
