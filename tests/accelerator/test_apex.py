"""Ape-X's learner on an accelerator: batches from replay shards, target networks, priorities, weights for actors.

An update waits for nothing. After it, the learner waits twice at most: for the weights where they are published, and
for the priorities, which go back to the shards. Actors, shards and the evaluator have no device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from imitation import Traffic, recorded
from roles import SMALL, Alone, System

from run_state import assert_same
from veldt.learning.learner import Learner
from veldt.runs.checkpoints import CheckpointStore
from veldt.systems.roles.actor import _Actor
from veldt.systems.roles.evaluator import _evaluate, _Player
from veldt.systems.roles.messages import FinishedEvaluation
from veldt.systems.roles.pulled_network import PulledNetwork
from veldt.systems.roles.replay_learner import ReplayLearner
from veldt.systems.roles.replay_shard import ReplayShard

BATCH = 16
SETTINGS: dict[str, Any] = {
    "num_envs": 4,
    "actors": 2,
    "shards": 2,
    "horizon": 4,
    "n_step": 2,
    "batch_size": BATCH,
    "training_intensity": 2.0,
    "learning_starts": 40,
    "buffer_size": 200,
    "actor_sync_interval": 1,
    "evaluator_share": 0.5,
    "target_update_interval": 5,
    "seed": 3,
}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dqn": ("apex-dqn", "CartPole-v1", {}),
    "uniform": ("apex-dqn", "CartPole-v1", {"replay": "uniform"}),
    "c51": ("apex-dqn", "CartPole-v1", {"algorithm": "c51"}),
    "noisy layers": ("apex-dqn", "CartPole-v1", {"noisy": True}),
    "Polyak averages": ("apex-dqn", "CartPole-v1", {"tau": 0.1, "target_update_interval": 1}),
    "ddpg": ("apex-ddpg", "environments:bounded_box", {"target_update_interval": 0}),
    "a dictionary": ("apex-dqn", "environments:dictionary", {}),
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thread, nothing arrives while it waits."""
    for name in ("replay_learner._WAIT_S", "replay_serving._WAIT_S"):
        monkeypatch.setattr(f"veldt.systems.roles.{name}", 0.0)


class Roles:
    """A learner on `device`, with actors, replay shards and an evaluator."""

    def __init__(self, name: str, device: object, run: Path | None = None, **settings: Any) -> None:
        recipe, env, own = RUNS[name]
        system = System(recipe, env, device, **SETTINGS | own | settings)
        edges, plans = system.edges, system.plans
        self.weights, self.rate_limiter = edges["weights"], edges["rate_limiter"]
        self.evaluator = plans["evaluator"][0]
        self.shards = [
            ReplayShard(Alone(), plan, edges[f"steps {plan.number}"], [edges["batches 0"]])
            for plan in plans["replay"]
        ]
        learner = dataclasses.replace(plans["learner"][0], run=run)
        client = edges["batches 0"].client()
        self.learner = ReplayLearner(Alone(), learner, self.weights, client, self.rate_limiter)
        actor = next(role for role in system.graph.roles if role.name == "actor")
        self.actors = [
            _Actor(
                Alone(),
                plan,
                self.weights,
                edges[wiring["slots"]].producer(plan.ring),
                self.rate_limiter,
            )
            for plan, wiring in zip(actor.plans, actor.edges, strict=True)
        ]

    def play(self, turns: int) -> None:
        """In each turn every actor sends a slot, and the learner makes the updates that are due."""
        for _ in range(turns):
            for actor in self.actors:
                actor.act()
            for _ in range(4):
                for shard in self.shards:
                    shard.step()
                self.learner.step()

    def values(self) -> dict[str, np.ndarray]:
        found = {
            f"{group} {name}": value
            for group, arrays in self.learner._state().items()
            for name, value in arrays.items()
        }
        for number, actor in enumerate(self.actors):
            found |= {f"actor {number} {name}": value for name, value in actor._policy._arrays.items()}
            found[f"actor {number} actions"] = actor._slot.action
        for number, shard in enumerate(self.shards):
            found[f"shard {number} priorities"] = np.array(shard._buffer.index.mass)
        return found

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


def roles(name: str, device: object, **settings: Any) -> closing[Roles]:
    return closing(Roles(name, device, **settings))


@pytest.mark.parametrize("name", RUNS)
def test_the_values_are_the_cpus(name: str, device: torch.device) -> None:
    with roles(name, "cpu") as here, roles(name, device) as there:
        for each in (here, there):
            each.play(12)
        assert there.learner._learner.updates == here.learner._learner.updates > 8
        assert_same(here.values(), there.values())


def test_norms_and_cosines_change_no_bit(measured: list[dict[str, torch.Tensor]]) -> None:
    with roles("dqn", "cpu") as plain, roles("dqn", "cpu", log_norms=True, log_saturation=True) as logged:
        for each in (plain, logged):
            each.play(8)
        assert logged.learner._learner.updates == plain.learner._learner.updates > 4 and measured
        assert_same(plain.values(), logged.values())


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dqn", {"target_update_interval": 1}),
        ("c51", {"target_update_interval": 1}),
        ("noisy layers", {"target_update_interval": 1}),
        ("Polyak averages", {}),
        ("ddpg", {}),
    ],
)
def test_an_update_waits_for_nothing_and_has_static_shapes(
    name: str,
    settings: dict[str, Any],
    device: torch.device,
    traffic_of: Callable[[type, str], list[Traffic]],
) -> None:
    """The target network moves in every update here, so that all updates are the same operations."""
    updates, steps = traffic_of(Learner, "update"), traffic_of(ReplayLearner, "_learn")
    batches = traffic_of(ReplayLearner, "_to_transitions")
    with roles(name, device, publish_every=2, **settings) as there:
        there.play(8)
    parameters = tuple(there.learner._parameters.fp32_params.shape)
    steps = [traffic for traffic in steps if traffic.downloads]
    assert len(updates) == len(steps) >= 6
    for number, (update, step) in enumerate(zip(updates, steps, strict=True), 1):
        assert not update.synchronisations and not update.uploads
        assert update.operations == updates[0].operations
        published = [parameters] if number % 2 == 0 else []
        assert [copy.shape for copy in step.downloads] == [*published, (BATCH,)]
        assert len(step.synchronisations) == len(step.downloads)
    for batch in batches:
        assert not batch.synchronisations and batch.uploads == batches[0].uploads
        assert batch.operations == batches[0].operations


def test_without_priorities_only_publishing_waits(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    steps = traffic_of(ReplayLearner, "_learn")
    with roles("uniform", device, publish_every=1000) as there:
        there.play(6)
        assert there.learner._learner.updates > 2
        assert there.learner.source_metrics().keys() == {"replay/transitions"}
    assert not any(traffic.synchronisations for traffic in steps)


def test_a_batch_of_images_is_copied_once_as_bytes(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNS, "images", ("apex-dqn", "environments:image_rows_columns_channels", {}))
    monkeypatch.delitem(SMALL, "hidden")
    batches = traffic_of(ReplayLearner, "_to_transitions")
    with roles("images", device, batch_size=4, training_intensity=0.5) as there:
        there.play(5)
    assert len(batches) > 2
    for batch in batches:
        images = [copy for copy in batch.uploads if copy.dtype == torch.uint8]
        assert len(images) == 2 and all(len(copy.shape) == 4 and copy.shape[0] == 4 for copy in images)
        assert sum(copy.nbytes for copy in batch.uploads if copy.dtype != torch.uint8) <= 4 * 4 * 8
        assert not batch.synchronisations


def test_actors_and_shards_have_no_device(
    device: torch.device, traffic_of: Callable[[type, str], list[Traffic]]
) -> None:
    acts, stores = traffic_of(_Actor, "act"), traffic_of(ReplayShard, "step")
    with roles("dqn", device) as there:
        there.play(8)
        assert there.learner._learner.updates > 2
    assert len(acts) == 16
    assert not any(traffic.operations or traffic.uploads for traffic in (*acts, *stores))


def test_the_evaluator_has_no_device_and_plays_as_on_the_cpu(device: torch.device) -> None:
    results = []
    for each in ("cpu", device):
        with roles("dqn", each, evaluate_steps=60) as made:
            made.play(8)
            plan = made.evaluator
            control, policy = Alone(), PulledNetwork(plan.config, plan.spec, plan.network, made.weights)
            with recorded() as traffic:
                assert policy.pull_if_newer()
                player = _Player(control, made.evaluator, policy)
                player.play_steps()
                _evaluate(control, made.evaluator, policy, 1)
            results.append((player._sampler.trajectory.action.tolist(), control.said[-1]))
            player.close()
            assert not traffic.operations and not traffic.uploads
    assert isinstance(results[0][1], FinishedEvaluation)
    assert results[0] == results[1]


def test_a_learner_resumes_from_its_checkpoint_with_the_cpus_values(
    device: torch.device, tmp_path: Path
) -> None:
    states = []
    for each in ("cpu", device):
        run = tmp_path / torch.device(each).type
        with roles("dqn", each) as before:
            before.play(8)
            state = before.learner._state()
        CheckpointStore(run / "checkpoints").save(1, state, {})
        with roles("dqn", each, run=run) as after:
            loaded = after.learner._state()
            after.play(8)
            assert after.learner._learner.updates > 2
            states.append((state, loaded, after.values()))
    for state, loaded, _ in states:
        for group, arrays in state.items():
            assert_same(arrays, loaded[group])
    assert_same(states[0][2], states[1][2])


def test_network_and_target_network_are_captured_in_cuda_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[dict[str, Any]] = []

    def compiler(network: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        compiled.append(options)
        return network

    monkeypatch.setattr(torch, "compile", compiler)
    with roles("dqn", "cpu", cuda_graphs=True) as made:
        made.play(6)
        assert made.learner._learner.updates > 2
    assert compiled == [{"mode": "reduce-overhead", "dynamic": False}] * 2
