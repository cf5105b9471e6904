"""Actors, replay shards and a learner, each in its own process, joined by their edges."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.replay import ReplayEdge
from veldt.exchange.weights import SharedWeights
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.role_messages import Failed, Received, Restarted, RoleMessage, Started
from veldt.runtime.supervision.local import Supervisor
from veldt.sampling.episodes import Episode
from veldt.systems.apex.graph import apex
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.roles.messages import FinishedEpisodes, LearnerMetrics

ACTORS, WIDTH, SHARDS, STEPS = 3, 2, 2, 8
DEADLINE_S = 90.0
SETTINGS = {
    "num_envs": ACTORS * WIDTH,
    "actors": ACTORS,
    "shards": SHARDS,
    "actor_chunk": STEPS * WIDTH,
    "rate_limit_tolerance": 1000.0,
    "evaluator_share": 0.0,
    "actor_sync_interval": 20,
    "n_step": 3,
    "batch_size": 16,
    "training_intensity": 4.0,
    "learning_starts": 100,
    "buffer_size": 1200,
    "hidden": (16,),
    "steps": 100_000,
    "device": "cpu",
}


@dataclass
class Running:
    supervisor: Supervisor
    rate_limiter: RateLimiter
    edge: ReplayEdge
    weights: SharedWeights
    arrays: dict[str, np.ndarray]
    heard: list[Received]

    def until(self, what: str, holds: object) -> None:
        end = time.monotonic() + DEADLINE_S
        while not holds():  # type: ignore[operator]
            assert time.monotonic() < end, f"not in time: {what}"
            self.heard += self.supervisor.poll(0.05)

    def of(self, kind: type[RoleMessage]) -> list[Received]:
        return [one for one in self.heard if isinstance(one.message, kind)]


@contextmanager
def running(recipe: str) -> Iterator[Running]:
    config = with_settings(find("apex-dqn").config("CartPole-v1", recipe), SETTINGS)
    run_plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    graph = apex(run_plan)
    supervisor, edges = start_local(graph)
    supervisor.start()
    try:
        yield Running(
            supervisor, edges["rate_limiter"], edges["batches 0"], edges["weights"], run_plan.weights(), []
        )
    finally:
        supervisor.kill()


@pytest.mark.parametrize("recipe", [pytest.param("dqn", marks=pytest.mark.long), "rainbow"])
def test_actors_shards_and_learner_train_within_the_rate_limit(recipe: str) -> None:
    with running(recipe) as run:
        run.until("learning", lambda: run.rate_limiter.updates_L[0] >= 150)
        rate_limiter = run.rate_limiter
        assert (
            rate_limiter.samples
            <= rate_limiter.due
            <= rate_limiter.samples + 1000 + 4.0 * STEPS * WIDTH * ACTORS
        )

        def games() -> list[Episode]:
            return [game for one in run.of(FinishedEpisodes) for game in one.message.episodes]

        everybody = set(range(ACTORS * WIDTH))
        run.until("games of all envs", lambda: {game.env_index for game in games()} == everybody)
        run.until("both shards filled", lambda: bool((run.edge.ledger("rows") > 0).all()))
        assert all(game.length == game.episode_return for game in games()), "a point for each step"
        version = run.weights.pull_if_newer(-1, run.arrays)
        assert 100 < version <= run.rate_limiter.updates_L[0] + 1
        run.until("metrics", lambda: run.of(LearnerMetrics))
        metrics = run.of(LearnerMetrics)[-1].message
        assert 0 <= metrics.lag_min <= metrics.lag_max <= metrics.updates
        assert np.isfinite(metrics.sums["train/loss"]) and metrics.count > 0
        run.supervisor.stop(30.0)
        assert run.supervisor.all_ended and not run.of(Failed)


def test_training_continues_after_actors_and_shards_are_killed() -> None:
    with running("dqn") as run:
        run.until("learning", lambda: run.rate_limiter.updates_L[0] >= 20)
        pids = {message.role: message.message.pid for message in run.of(Started)}
        for role in (1, 3, 4):  # a shard, and two actors
            os.kill(pids[role], signal.SIGKILL)
        run.until("max_restarts", lambda: len(run.of(Restarted)) == 3)
        before = run.rate_limiter.steps_A.copy(), int(run.rate_limiter.updates_L[0])
        run.until("learning again", lambda: run.rate_limiter.updates_L[0] >= before[1] + 100)
        run.until("acting again", lambda: bool((run.rate_limiter.steps_A > before[0]).all()))
        run.until("both shards filled", lambda: bool((run.edge.ledger("rows") > 0).all()))
        assert run.edge.ledger("incarnation").tolist() == [2, 1]
        assert {message.message.name for message in run.of(Restarted)} == {
            "replay 0",
            "actor 0",
            "actor 1",
        }
