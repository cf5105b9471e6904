"""Learners, parameter shards, replay shards and actors, each in its own process, some of which are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.parameter_partition import PARAMETERS, ShardedParameters
from veldt.exchange.rate_limiter import RateLimiter
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime import process_state
from veldt.runtime.role_messages import Failed, Received, Restarted, RoleMessage, Started
from veldt.runtime.supervision.local import Supervisor
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.gorila.graph import gorila
from veldt.systems.planning.run_plan import make_run_plan

DEADLINE_S = 90.0
SHARDS = 2
BUNDLES: dict[str, Any] = {
    "learners": 2,
    "num_envs": 4,
    "parameter_shards": SHARDS,
    "evaluator_share": 0.0,
    "batch_size": 16,
    "training_intensity": 4.0,
    "learning_starts": 100,
    "target_update_interval": 100,
    "buffer_size": 1200,
    "hidden": (16,),
    "steps": 1_000_000,
    "device": "cpu",
}
APART = BUNDLES | {"actors": 2, "shards": 2, "rate_limit_tolerance": 5000.0}


@dataclass
class Running:
    supervisor: Supervisor
    names: list[str]
    edges: dict[str, Any]
    heard: list[Received]

    @property
    def rate_limiter(self) -> RateLimiter:
        rate_limiter: RateLimiter = self.edges["rate_limiter"]
        return rate_limiter

    def until(self, what: str, holds: Any) -> None:
        end = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end, f"not in time: {what}"
            self.heard += self.supervisor.poll(0.05)

    def until_all_have_learned(self, updates_L: np.ndarray) -> None:
        """So many updates, each learner."""
        self.until(f"updates {updates_L}", lambda: bool((self.rate_limiter.updates_L > updates_L).all()))

    def kill(self, *names: str) -> None:
        """One of each role, at once, and waits until they are started again."""
        before = len(self.of(Restarted))
        for name in names:
            os.kill(self.pid(name), signal.SIGKILL)
        self.until(f"{names} again", lambda: len(self.of(Restarted)) == before + len(names))

    def of(self, kind: type[RoleMessage]) -> list[Received]:
        return [one for one in self.heard if isinstance(one.message, kind)]

    def pid(self, name: str) -> int:
        """Of its newest life."""
        started = [one for one in self.of(Started) if self.names[one.role] == name]
        return int(started[-1].message.pid)

    def whole(self) -> ShardedParameters:
        total = sum(edge._layouts[PARAMETERS].shape[0] for edge in self.parts)
        whole = ShardedParameters(self.parts, np.zeros(total, np.float32))
        whole.pull()
        return whole

    @property
    def parts(self) -> list[Any]:
        return [self.edges[f"part {shard}"] for shard in range(SHARDS)]


@contextmanager
def running(settings: dict[str, Any]) -> Iterator[Running]:
    config = with_settings(find("gorila").config("CartPole-v1"), settings)
    graph = gorila(make_run_plan(RunRequest(config, resolve("CartPole-v1"))))
    names = [role.named(index) for role in graph.roles for index in range(len(role.plans))]
    supervisor, edges = start_local(graph)
    supervisor.start()
    try:
        yield Running(supervisor, names, edges, [])
    finally:
        supervisor.kill()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "settings", [BUNDLES, pytest.param(APART, marks=pytest.mark.long)], ids=["bundles", "apart"]
)
def test_training_continues_after_each_role_is_killed(settings: dict[str, Any]) -> None:
    with running(settings) as run:
        run.until_all_have_learned(np.array([20, 20]))
        for number in ("0", "1"):
            before, updates_L = run.whole().version_S, run.rate_limiter.updates_L.copy()
            run.kill(*(name for name in run.names if name.endswith(number)))
            run.until_all_have_learned(updates_L + 20)
            run.until("no shard has begun again", lambda: bool((run.whole().version_S > before + 20).all()))  # noqa: B023
        assert sorted(one.message.name for one in run.of(Restarted)) == sorted(run.names)
        run.supervisor.stop(30.0)
        assert run.supervisor.all_ended and not run.of(Failed)


@pytest.mark.timeout(300)
def test_a_killed_shard_continues_with_its_parameters_and_the_rules_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_state, "STOPPED_S", 1000.0)  # its learners are stopped meanwhile
    with running(BUNDLES | {"optimiser": "adam", "learning_rate": 1e-9}) as run:
        run.until_all_have_learned(np.array([50, 50]))
        for learner in ("learner 0", "learner 1"):
            os.kill(run.pid(learner), signal.SIGSTOP)
        time.sleep(0.5)  # what is under way is applied
        version, persistent = run.parts[0]._arrays["version"].max(), run.edges["state 0"]
        before = {name: array.copy() for name, array in persistent.arrays.items()}
        values = run.whole()._into[0][PARAMETERS].copy()
        counts = run.parts[0]._arrays["counts"]
        done = int(counts[1])
        run.kill("server 0")
        run.until("it publishes what it has", lambda: int(counts[1]) > done)
        assert run.parts[0]._arrays["version"][int(counts[1]) % 2] == version
        np.testing.assert_array_equal(run.whole()._into[0][PARAMETERS], values)
        assert float(persistent.arrays["count"]) == float(before["count"]) >= 50
        for name, array in before.items():
            np.testing.assert_array_equal(persistent.arrays[name], array)
        for learner in ("learner 0", "learner 1"):
            os.kill(run.pid(learner), signal.SIGCONT)
        run.until("learning again", lambda: run.whole().version_S[0] > version + 20)
        assert float(persistent.arrays["count"]) > float(before["count"])
