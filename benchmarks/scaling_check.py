"""What whole systems take of this machine's cores, for the model's metrics to be set against."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import psutil

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.graph import Graph
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.systems.apex.graph import apex
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.ga3c.graph import ga3c
from veldt.systems.impala.graph import impala
from veldt.systems.planning.run_plan import make_run_plan

_SYSTEMS = {"impala": impala, "apex-dqn": apex, "ga3c": ga3c}
_PATIENCE_S = 180.0


def core_seconds(recipe: str, env: str, settings: dict[str, Any], seconds: float) -> dict[str, float]:
    """Of a step, by role ("actor", "learner", ...), while a run learns; and its "sps" by the clock."""
    config = find(recipe).config(env)
    common: dict[str, Any] = {"evaluate_every": 0, "threads": 1, "precision": "fp32"}
    if config.replay is not None:
        common |= {"buffer_size": 20_000, "learning_starts": 2_000}
    common |= {"tuner_interval": 0.0} if recipe == "ga3c" else {"evaluator_share": 0.0}
    config = with_settings(config, common | settings)
    graph: Graph = _SYSTEMS[recipe](make_run_plan(RunRequest(config, resolve(env))))
    supervisor, edges = start_local(graph)
    rate_limiter = edges["rate_limiter"]
    supervisor.start()

    def look_until(end: float) -> None:
        while time.monotonic() < end:
            supervisor.poll(0.05)

    try:
        patience = time.monotonic() + _PATIENCE_S
        while rate_limiter.updates_L.sum() < 10:
            look_until(time.monotonic() + 0.05)
            if time.monotonic() > patience:
                raise SystemExit("nothing happens")
        look_until(time.monotonic() + 2.0)  # what is compiled is compiled then
        roles = [role.name for role in graph.roles]
        before, steps, begin = _spent(roles), rate_limiter.steps, time.monotonic()
        look_until(begin + seconds)
        after, made, took = _spent(roles), rate_limiter.steps - steps, time.monotonic() - begin
    finally:
        supervisor.kill()
    return {role: (after[role] - before[role]) / made for role in roles} | {"sps": made / took}


def _spent(roles: Iterable[str]) -> dict[str, float]:
    """Seconds of cores that the roles' processes have had."""
    spent = dict.fromkeys(roles, 0.0)
    for process in psutil.Process().children(recursive=True):
        role = process.name().split()[0]
        if role in spent:
            times = process.cpu_times()
            spent[role] += times.user + times.system
    return spent
