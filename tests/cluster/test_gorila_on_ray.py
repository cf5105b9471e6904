"""Gorila on Ray on this machine: with and without bundles, and with a parameter shard that is killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoints import CheckpointStore
from veldt.runtime.on_ray.cluster import connected
from veldt.runtime.role_messages import Received, Restarted, RoleMessage, Started
from veldt.systems.driver.ray_runtime import start_on_ray
from veldt.systems.gorila.graph import gorila
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.roles.messages import SnapshotPart

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
DEADLINE_S = 120.0
BUNDLES: dict[str, Any] = {
    "learners": 2,
    "num_envs": 4,
    "parameter_shards": 2,
    "batch_size": 16,
    "training_intensity": 2.0,
    "learning_starts": 100,
    "buffer_size": 4000,
    "hidden": (16,),
    "evaluator_share": 0.0,
    "steps": 3000,
    "seed": 3,
}
APART = BUNDLES | {"actors": 2}


@pytest.mark.parametrize(
    "settings", [BUNDLES, pytest.param(APART, marks=pytest.mark.long)], ids=["bundles", "apart"]
)
def test_a_run_is_resumed_on_one_machine(
    settings: dict[str, Any], tmp_path: Path, nothing_left: Path
) -> None:
    env = "environments:slow_cartpole"
    run = veldt.train("gorila", env=env, run_dir=tmp_path / "run", cluster="local", quiet=True, **settings)
    assert run.reason == "steps" and run.summary["steps"] >= 3000 and run.summary["episodes"] > 10
    there = CheckpointStore(run.path / "checkpoints").newest(print)
    assert (
        sum(there.meta["rate_limiter"]["steps"]) >= 3000 and min(there.meta["rate_limiter"]["updates"]) > 20
    )
    assert (there.groups["server"]["version"] > 40).all()
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2
    here = veldt.resume(run.path, steps=5000, quiet=True)
    after = CheckpointStore(run.path / "checkpoints").newest(print)
    assert here.summary["steps"] >= 5000
    assert (after.groups["server"]["version"] > there.groups["server"]["version"]).all()


@pytest.mark.long
def test_a_killed_parameter_shard_continues_from_its_readers_copies(
    tmp_path: Path, nothing_left: Path
) -> None:
    """The run has no checkpoint."""
    config = with_settings(
        find("gorila").config("CartPole-v1"), BUNDLES | {"steps": 10**9, "optimiser": "adam"}
    )
    graph = gorila(make_run_plan(RunRequest(config, resolve("CartPole-v1"))))
    heard: list[Received] = []
    with connected("local") as cluster:
        supervisor, edges = start_on_ray(cluster, graph)
        supervisor.start()

        def until(what: str, holds: Any) -> None:
            end = time.monotonic() + DEADLINE_S
            while not holds():
                assert time.monotonic() < end, what
                heard.extend(supervisor.poll(0.05))

        def of(kind: type[RoleMessage], role: int) -> list[Received]:
            return [one for one in heard if isinstance(one.message, kind) and one.role == role]

        def part(number: int) -> dict[str, np.ndarray]:
            """What shard 0, the role of number 2, says of itself for a snapshot."""
            supervisor.request_snapshot()
            before = len(of(SnapshotPart, 2))
            until("a part", lambda: len(of(SnapshotPart, 2)) > before)
            return of(SnapshotPart, 2)[-1].message.groups["server-0"]

        try:
            until("learning", lambda: bool((edges["rate_limiter"].updates_L > 100).all()))
            version = int(part(1)["version"][0])
            os.kill(of(Started, 2)[-1].message.pid, signal.SIGKILL)
            until("a restart", lambda: of(Restarted, 2))
            begun = int(edges["rate_limiter"].updates_L.min())
            until("learning again", lambda: int(edges["rate_limiter"].updates_L.min()) > begun + 20)
            after = part(2)
            assert int(after["version"][0]) >= version > 100
            # The rule's state began anew, as there is no checkpoint.
            assert float(after["count"]) < int(after["version"][0])
            os.kill(of(Started, 0)[-1].message.pid, signal.SIGKILL)
            until("a bundle's restart", lambda: of(Restarted, 0))
            begun = int(edges["rate_limiter"].updates_L[0])
            until("it learns again", lambda: int(edges["rate_limiter"].updates_L[0]) > begun + 20)
        finally:
            supervisor.kill()
