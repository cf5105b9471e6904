"""Roles of a system of several processes, in this one: the imitated accelerator exists nowhere else."""

from __future__ import annotations

from typing import Any

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.exchange.graph import Graph, make_local_edges
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.processes import forkserver
from veldt.runtime.roles import Peers
from veldt.systems.planning.run_plan import make_run_plan

SMALL: dict[str, Any] = {"hidden": (16,), "threads": 1, "precision": "fp32"}


class Alone:
    """A control without a supervisor; `said` are the messages sent to it."""

    restart_count, requested_snapshot, stopping, peers = 0, 0, False, Peers(0, 1)

    def __init__(self) -> None:
        self.said: list[Any] = []

    def heartbeat(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        pass

    def send(self, message: Any) -> None:
        self.said.append(message)


class System:
    """The graph of a small run on `device`, and its edges in this process.

    Args:
        algorithm: that of the recipe by default.
    """

    def __init__(
        self, recipe: str, env: str, device: object, algorithm: str | None = None, **settings: Any
    ) -> None:
        config = with_settings(
            find(recipe).config(env, algorithm), SMALL | {"device": str(device)} | settings
        )
        self.run_plan = make_run_plan(RunRequest(config, resolve(env)))
        self.graph: Graph = self.run_plan.graph()
        self.edges: dict[str, Any] = make_local_edges(
            self.graph.edges, forkserver(["veldt.envs.worker", "gymnasium"])
        )
        self.plans = {role.name: role.plans for role in self.graph.roles}
