"""GA3C's roles in one process: requests, answers, recorded steps and training data agree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from environments import RewardedAtTheEnd
from veldt.algorithms.rollout import Rollout, unroll_forward
from veldt.config.run_request import RunRequest
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.source import resolve
from veldt.exchange.graph import make_local_edges
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.processes import forkserver
from veldt.systems.ga3c.agents import AgentHost
from veldt.systems.ga3c.graph import ga3c
from veldt.systems.ga3c.model import Model
from veldt.systems.planning.run_plan import make_run_plan

AGENTS, STEPS = 6, 5


class Alone:
    """A control without a supervisor."""

    restart_count, stopping, requested_snapshot = 0, False, 0

    def __init__(self) -> None:
        self.said: list[Any] = []

    def heartbeat(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        pass

    def send(self, message: Any) -> None:
        self.said.append(message)


class Roles:
    """A model and two processes, whose turns come in any order."""

    def __init__(self, env: str, **settings: Any) -> None:
        small = {"num_envs": AGENTS, "agent_processes": 2, "horizon": STEPS, "threads": 1, "training_rows": 0}
        if settings.get("algorithm") is None and not env.startswith("ALE/"):
            small["hidden"] = (16,)
        algorithm = settings.pop("algorithm", None)
        config = with_settings(find("ga3c").config(env, algorithm), small | settings)
        graph = ga3c(make_run_plan(RunRequest(config, resolve(env))))
        self.edges = make_local_edges(graph.edges, forkserver(["veldt.envs.worker", "gymnasium"]))
        inference, rollouts, self.rate_limiter = (
            self.edges[name] for name in ("inference", "rollouts", "rate_limiter")
        )
        (model,), processes = graph.roles[0].plans, graph.roles[1].plans
        self.model = Model(Alone(), model, inference, rollouts, self.rate_limiter, None)
        self.processes = [
            AgentHost(
                Alone(),
                plan,
                inference.client(plan.number),
                rollouts.producer(plan.number),
                self.rate_limiter,
            )
            for plan in processes
        ]

    def play(self, turns: int, *, trains: bool) -> None:
        rng = random.Random(0)
        for _ in range(turns):
            rng.choice(self.processes).step()
            if rng.random() < 0.7:
                self.model.predict()
            if trains and self.edges["rollouts"].waiting.sum() > rng.randrange(4):
                self.model.train()

    def close(self) -> None:
        for process in self.processes:
            process.close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In one thread, no message arrives while it waits."""
    monkeypatch.setattr("veldt.systems.ga3c.agents._WAIT_S", 0.0)
    monkeypatch.setattr("veldt.systems.ga3c.agents._POLL_S", 0.0)
    monkeypatch.setattr("veldt.systems.ga3c.model._WAIT_S", 0.0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("algorithm", ["vtrace", "a2c"])
def test_every_reward_is_learned_from(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The env gives rewards at the ends of episodes only."""
    roles = Roles("environments:rewarded_at_the_end", algorithm=algorithm)
    RewardedAtTheEnd.paid = learned = steps = 0.0
    make = type(roles.model._on_policy).minibatches

    def minibatches(self: Any, forward: Any, rollout: Rollout, generator: Any) -> Any:
        nonlocal learned, steps
        learned += float(rollout.reward[rollout.valid].sum())
        steps += int(rollout.valid.sum())
        yield from make(self, forward, rollout, generator)

    monkeypatch.setattr(type(roles.model._on_policy), "minibatches", minibatches)
    try:
        roles.play(600, trains=True)
        roles.model.train()
        unfinished = 0.0
        for process in roles.processes:
            for b in range(AGENTS // 2):
                rows = process._row_W[b]
                unfinished += float((process._slot.reward[:rows, b] * process._slot.valid[:rows, b]).sum())
        assert RewardedAtTheEnd.paid == learned + unfinished and learned > 50
        assert steps == roles.rate_limiter.steps > 1000
    finally:
        roles.close()


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"algorithm": "vtrace", "prediction_batch": 1}),
        ("CartPole-v1", {"lstm": 8, "shared": True}),
        ("environments:lopsided_box", {}),
        ("environments:dictionary", {}),
        ("ALE/Pong-v5", {"precision": "fp32"}),
    ],
)
def test_the_recorded_policy_and_value_equal_the_networks_output(env: str, settings: dict[str, Any]) -> None:
    roles = Roles(env, **settings)
    model = roles.model
    try:
        unrolls = []
        while len(unrolls) < 12:
            roles.play(20, trains=False)
            if (taken := model._intake.take(0.0)) is not None:
                unrolls.append(taken)
        for taken in unrolls:
            rollout, rows = taken.rollout(), taken.rows
            forward = unroll_forward(model._forward, rollout.recurrent)
            with torch.no_grad():
                parameters_NP, _ = forward(rollout.observations.rows(None))
            assert torch.allclose(rollout.extras["policy"].flatten(0, 1), parameters_NP, atol=1e-5)
            assert "value" not in rollout.extras, "it is asked for anew when it is learned from"
            if rollout.recurrent is not None:
                assert rollout.recurrent.last_BM is not None
                assert torch.allclose(forward.state_BM, rollout.recurrent.last_BM, atol=1e-5)
            assert (rows.version == 0).all()
            assert (
                rows.episode_step[1:][~rows.is_last[:-1]] == rows.episode_step[:-1][~rows.is_last[:-1]] + 1
            ).all()
    finally:
        roles.close()


def test_noise_belongs_to_agents_and_their_steps() -> None:
    """An action depends on the policy's output and the agent's own step count, not on the batch of requests."""
    roles = Roles("CartPole-v1", prediction_batch=2)
    distribution, checked = roles.model._on_policy.distribution, 0
    try:
        for _ in range(60):
            roles.play(15, trains=True)
            for number, process in enumerate(roles.processes):
                for b in range(AGENTS // 2):
                    rows = int(process._row_W[b])
                    step_T = np.arange(process._step_W[b] - rows, process._step_W[b])
                    agent = np.array([number * AGENTS // 2 + b])
                    noise = torch.from_numpy(uniform(process._seed, ACTION, agent, step_T, 2))
                    policy_TP = torch.from_numpy(process._actor_outputs["policy"][:rows, b])
                    action_T = distribution.sample(policy_TP, distribution.prepare(noise)[:, 0])
                    assert action_T.tolist() == process._slot.action[:rows, b].tolist()
                    checked += rows
        assert checked > 300
    finally:
        roles.close()


def test_rollouts_follow_one_another() -> None:
    """The last row of an agent's rollout is the first of its next one: no step is missing."""
    roles = Roles("environments:scripted", agent_processes=1, training_queue=AGENTS)
    last: dict[int, tuple[Any, ...]] = {}
    found = 0
    try:
        for _ in range(60):
            roles.play(15, trains=False)
            taken = roles.model._intake.take(0.0)
            if taken is None:
                continue
            rows = taken.rows
            for column in range(rows.width):

                def row(t: int, b: int = column, rows: Any = rows) -> tuple[Any, ...]:
                    return (
                        tuple(rows.observation[""][t, b].tolist()),
                        int(rows.episode_step[t, b]),
                        int(rows.episode[t, b]),
                    )

                first = row(0)
                matching = [key for key, value in last.items() if value == first]
                if last and len(last) == AGENTS:
                    assert matching, "it goes on from where some agent was"
                key = matching[0] if matching else len(last)
                last[key] = row(STEPS)
                found += 1
                for t in range(STEPS):
                    seed, episode_step, _ = rows.observation[""][t + 1, column]
                    if rows.valid[t, column]:
                        action = int(rows.action[t, column])
                        assert rows.reward[t, column] == seed % 64 + episode_step / 4 + 64 * action
        assert found > 60
    finally:
        roles.close()


def test_parked_agents_pause_between_rollouts() -> None:
    roles = Roles("CartPole-v1")
    try:
        roles.play(100, trains=True)
        roles.model._server.activate(2)
        roles.play(200, trains=True)
        rows = [process._row_W.copy() for process in roles.processes]
        before = [process._step_W.copy() for process in roles.processes]
        assert all((row_W[1:] == 0).all() for row_W in rows), "their last rollouts are complete"
        roles.play(200, trains=True)
        for process, steps_W in zip(roles.processes, before, strict=True):
            assert process._step_W[0] > steps_W[0] and (process._step_W[1:] == steps_W[1:]).all()
        roles.model._server.activate(AGENTS)
        roles.play(200, trains=True)
        assert all(
            (process._step_W > steps_W).all()
            for process, steps_W in zip(roles.processes, before, strict=True)
        )
    finally:
        roles.close()


def test_agents_wait_while_no_trainer_learns_and_no_rollout_is_lost() -> None:
    roles = Roles("CartPole-v1", training_queue=4)
    try:
        roles.play(400, trains=False)
        assert roles.edges["rollouts"].waiting.tolist() == [2, 2]
        assert roles.rate_limiter.steps <= 4 * STEPS
        assert all((process._row_W == STEPS).all() for process in roles.processes), (
            "each with a rollout that is full"
        )
        roles.play(400, trains=True)
        assert roles.rate_limiter.steps > 20 * STEPS
    finally:
        roles.close()


@pytest.mark.parametrize("algorithm", ["a2c", "vtrace"])
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "ungrouped"])
def test_rollouts_that_wait_become_one_update_or_one_each(algorithm: str, *, grouped: bool) -> None:
    roles = Roles("CartPole-v1", algorithm=algorithm, group_rollouts=grouped)
    model = roles.model
    try:
        roles.play(400, trains=False)
        waiting = int(roles.edges["rollouts"].waiting.sum())
        assert waiting > 2
        for turn in range(waiting):
            model.train()
            assert model._learner.updates == (1 if grouped else turn + 1)
        model.train()
        assert model._learner.updates == (1 if grouped else waiting), "nothing waits any more"
        assert model._intake.stats.items == waiting
    finally:
        roles.close()
