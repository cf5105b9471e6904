"""GA3C's model on an accelerator: turns of its predictors and trainers, and of agents, which have no device.

A turn of a predictor waits for what the agents need: their actions, the policy's parameters and, with an LSTM, the
recurrent states, one copy each: agents have no device, and the model keeps nothing between two requests. A turn of a
trainer waits
for nothing; only weights that are published (every 16 updates, for the evaluator) are copied to the host.
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

from run_state import assert_same
from veldt.learning.learner import Learner
from veldt.systems.ga3c.agents import AgentHost
from veldt.systems.ga3c.model import Model

AGENTS, STEPS = 4, 5
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a2c": ("CartPole-v1", {"algorithm": "a2c"}),
    "vtrace": ("CartPole-v1", {"algorithm": "vtrace"}),
    "an LSTM": ("CartPole-v1", {"algorithm": "vtrace", "lstm": 8, "shared": True}),
    "a box of actions": ("environments:lopsided_box", {"algorithm": "a2c"}),
    "a dictionary": ("environments:dictionary", {"algorithm": "a2c"}),
    "normalisation": ("environments:lopsided_box", {"algorithm": "a2c", "normalise_observations": True}),
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thread, nothing arrives while it waits."""
    for name in ("agents._WAIT_S", "agents._POLL_S", "model._WAIT_S"):
        monkeypatch.setattr(f"veldt.systems.ga3c.{name}", 0.0)


class Roles:
    """A model on `device`, and one process with all agents."""

    def __init__(self, name: str, device: object, **more: Any) -> None:
        env, settings = RUNS[name]
        own = {"num_envs": AGENTS, "agent_processes": 1, "horizon": STEPS, "training_rows": AGENTS * STEPS}
        system = System("ga3c", env, device, seed=3, **own | settings | more)
        inference, rollouts, rate_limiter = (
            system.edges[key] for key in ("inference", "rollouts", "rate_limiter")
        )
        self.model = Model(Alone(), system.plans["model"][0], inference, rollouts, rate_limiter, None)
        self.agents = AgentHost(
            Alone(), system.plans["agent"][0], inference.client(0), rollouts.producer(0), rate_limiter
        )

    def rollout(self) -> None:
        """All agents play one rollout, from which the model learns."""
        for _ in range(STEPS):
            self.agents.step()
            self.model.predict()
        self.agents.step()  # hands over
        self.agents.step()
        self.model.train()

    def values(self) -> dict[str, np.ndarray]:
        learner, own = self.model._learner, self.agents
        found = learner.weights() | {
            f"rule {name}": value for name, value in learner.optimiser_state().items()
        }
        found |= {f"said {name}": value for name, value in own._actor_outputs.items()}
        return found | {"states": own._recurrent_WM, "actions": own._slot.action, "rewards": own._slot.reward}


@contextmanager
def roles(name: str, device: object, **more: Any) -> Iterator[Roles]:
    made = Roles(name, device, **more)
    try:
        yield made
    finally:
        made.agents.close()


@pytest.mark.parametrize("name", RUNS)
def test_the_values_are_the_cpus(name: str, device: torch.device) -> None:
    with roles(name, "cpu") as here, roles(name, device) as there:
        for _ in range(5):
            here.rollout()
            there.rollout()
        assert there.model._learner.updates == here.model._learner.updates > 3
        assert_same(here.values(), there.values())


def test_norms_and_cosines_change_no_bit(measured: list[dict[str, torch.Tensor]]) -> None:
    with roles("a2c", "cpu") as plain, roles("a2c", "cpu", log_norms=True, log_saturation=True) as logged:
        for _ in range(4):
            plain.rollout()
            logged.rollout()
        assert logged.model._learner.updates == plain.model._learner.updates > 2 and measured
        assert_same(plain.values(), logged.values())


@pytest.mark.parametrize("name", ["a2c", "an LSTM", "a dictionary"])
def test_a_predictor_copies_requests_there_and_answers_back(
    name: str, device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    turns = traffic_of(Model, "predict")
    with roles(name, device) as there:
        for _ in range(3):
            there.rollout()
        requests, answers = there.model._server.requests, there.model._server.answers
    turns = [traffic for traffic in turns if traffic.operations]
    assert len(turns) >= 2 * STEPS
    for traffic in turns:
        assert len(traffic.uploads) == len(requests)
        assert len(traffic.downloads) == len(answers.keys() - {"version"})
        assert len(traffic.synchronisations) == len(traffic.downloads)
        assert traffic.operations == turns[0].operations


@pytest.mark.parametrize("name", ["a2c", "vtrace", "an LSTM"])
def test_a_trainer_waits_for_nothing_and_has_static_shapes(
    name: str, device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    turns, updates = traffic_of(Model, "train"), traffic_of(Learner, "update")
    with roles(name, device) as there:
        for _ in range(6):
            there.rollout()
    turns = [traffic for traffic in turns if traffic.operations]
    assert len(turns) == len(updates) > 3
    for traffic in turns:
        assert not traffic.synchronisations
    for traffic in turns[2:]:
        assert traffic.operations == turns[1].operations
        assert traffic.uploads == turns[1].uploads
