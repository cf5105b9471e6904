"""The inference edge: agents without a network send requests, and a server answers many at once.

    agent process 0 --request()--+                                         +--> answers, and which of them are new
    agent process 1 --request()--+--> take(): all open requests --reply()--+

Each agent has one place for its request and one for its answer, so data is written once each way. Two numbers signal:
that of an agent's newest request, and that of the last one answered; each is written by one side only. An agent has one
request outstanding, so nothing can overflow, and either side may be killed at any moment: an answer to a request of a
former incarnation has a number that no agent waits for, and a restarted server finds the requests not yet answered.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from typing import NamedTuple

import numpy as np

from veldt.exchange.queue_stats import QueueStats
from veldt.exchange.slots import Arrays, awaited
from veldt.runtime.shared import Layout, SharedArrays


@dataclass(frozen=True)
class InferenceSpec:
    """`requests` and `answers` are one agent's layouts; each of `num_processes` processes has `width` agents."""

    requests: Mapping[str, Layout]
    answers: Mapping[str, Layout]
    num_processes: int
    width: int

    @property
    def agents(self) -> int:
        return self.num_processes * self.width

    def layouts(self) -> dict[str, Layout]:
        """Returns the layouts of all arrays of the edge, by name."""
        found = {name: Layout((self.agents,), "int64") for name in ("asked", "answered")}
        found["active"] = Layout((1,), "int64")
        for kind, layouts in (("request", self.requests), ("answer", self.answers)):
            for name, layout in layouts.items():
                found[f"{kind}/{name}"] = Layout((self.agents, *layout.shape), layout.dtype)
        return found


class InferenceEdge:
    """The memory shared by both sides. Picklable while a process is being started."""

    def __init__(self, spec: InferenceSpec, context: ForkServerContext) -> None:
        self.spec = spec
        self._shared = SharedArrays(spec.layouts(), context)
        self._shared["active"][0] = spec.agents
        self.asked_one = context.Semaphore(0)
        self.answered_one = [context.Semaphore(0) for _ in range(spec.num_processes)]

    def client(self, process: int) -> InferenceClient:
        return InferenceClient(self, process)

    def server(self) -> InferenceServer:
        return InferenceServer(self)

    @property
    def asked_N(self) -> np.ndarray:
        """The number of each agent's newest request, int64 [N]: written by its process."""
        return self._shared["asked"]

    @property
    def answered_N(self) -> np.ndarray:
        """The number of each agent's last answered request, int64 [N]: written by the server."""
        return self._shared["answered"]

    @property
    def active_1(self) -> np.ndarray:
        """The number of agents that are to act, int64 [1]: written by the server."""
        return self._shared["active"]

    def arrays(self, kind: str) -> Arrays:
        """Returns the arrays of all agents, by name, [N, ...]; `kind` is "request" or "answer"."""
        names = self.spec.requests if kind == "request" else self.spec.answers
        return {name: self._shared[f"{kind}/{name}"] for name in names}


class InferenceClient:
    """An agent process's end. `requests` and `answers` are the arrays of its W agents, [W, ...] each."""

    def __init__(self, edge: InferenceEdge, process: int) -> None:
        width = edge.spec.width
        part = slice(process * width, (process + 1) * width)
        self.requests = {name: array[part] for name, array in edge.arrays("request").items()}
        self.answers = {name: array[part] for name, array in edge.arrays("answer").items()}
        self._asked_W, self._answered_W = edge.asked_N[part], edge.answered_N[part]
        self._is_waiting_W = np.zeros(width, bool)
        self._wakes, self._woken_by = edge.asked_one, edge.answered_one[process]
        self._active_1 = edge.active_1
        # Agents with the highest ranks are parked first; ranks go round the processes.
        self._rank_W = np.arange(width) * edge.spec.num_processes + process

    def request(self, agent_R: np.ndarray) -> None:
        """Sends the requests of these agents, int64 [R], which have been written to `requests`."""
        self._asked_W[agent_R] += 1
        self._is_waiting_W[agent_R] = True
        self._wakes.release()

    def answered(self, deadline_s: float) -> np.ndarray:
        """Returns the agents whose answers have arrived, int64 [R], each once; empty if none arrived in time."""
        awaited(lambda: bool(self._new_W().any()), self._woken_by, deadline_s)
        agent_R = np.flatnonzero(self._new_W())
        self._is_waiting_W[agent_R] = False
        return agent_R

    @property
    def active_W(self) -> np.ndarray:
        """Which of the agents are to act, bool [W]."""
        return self._rank_W < self._active_1[0]

    def _new_W(self) -> np.ndarray:
        return self._is_waiting_W & (self._asked_W == self._answered_W)


class RequestBatch(NamedTuple):
    """Requests answered together: of agents int64 [R], with these request numbers, int64 [R]."""

    agent_R: np.ndarray
    number_R: np.ndarray


class InferenceServer:
    """The server's end, for several threads. `requests` and `answers` are arrays of all agents, [N, ...].

    `stats` counts the requests since it was made.
    """

    def __init__(self, edge: InferenceEdge) -> None:
        self._edge = edge
        self.requests, self.answers = edge.arrays("request"), edge.arrays("answer")
        self._asked_N, self._answered_N = edge.asked_N, edge.answered_N
        self._taken_N = self._answered_N.copy()
        # While one thread answers an agent, no other takes a request of its next incarnation: so answers stay in order.
        self._busy_N = np.zeros(edge.spec.agents, bool)
        self._next, self._lock = 0, threading.Lock()
        self.stats = QueueStats()

    def take(self, most: int, deadline_s: float, gather_s: float = 0.0) -> RequestBatch | None:
        """Returns all open requests, at most `most`, in turn over the agents; None if none arrived in time.

        Once there is one, it waits `gather_s` for more, or until there are `most`, or one of each active agent.
        """
        if not awaited(lambda: bool(self._open_N().any()), self._edge.asked_one, deadline_s):
            return None
        enough = min(most, int(self._edge.active_1[0]))
        # An agent that another thread is answering cannot send a request meanwhile.
        awaited(lambda: int((self._open_N() | self._busy_N).sum()) >= enough, self._edge.asked_one, gather_s)
        with self._lock:
            open_N = np.flatnonzero(self._open_N())
            if not len(open_N):  # another thread was faster
                return None
            agent_R = open_N
            if len(open_N) > most:  # agents in turn, or the last ones would wait for ever
                first = int(np.searchsorted(open_N, self._next))
                agent_R = np.roll(open_N, -first)[:most]
                self._next = int(agent_R[-1]) + 1
            number_R = self._asked_N[agent_R]
            self._taken_N[agent_R], self._busy_N[agent_R] = number_R, True
            self.stats = self.stats.plus(len(agent_R), waiting=len(open_N))
        if len(agent_R) < len(open_N):
            self._edge.asked_one.release()  # another thread takes the remaining requests
        return RequestBatch(agent_R, number_R)

    def reply(self, requests: RequestBatch) -> None:
        """Marks the requests as answered: the answers are in `answers`."""
        agent_R, number_R = requests
        self._answered_N[agent_R] = number_R
        with self._lock:
            self._busy_N[agent_R] = False
        for process in set((agent_R // self._edge.spec.width).tolist()):
            self._edge.answered_one[process].release()
        if (self._asked_N[agent_R] != number_R).any():
            self._edge.asked_one.release()  # a new incarnation has sent a request meanwhile

    def activate(self, agents: int) -> None:
        """Sets the number of active agents; the others pause before their next rollout."""
        self._edge.active_1[0] = agents

    def _open_N(self) -> np.ndarray:
        return (self._asked_N != self._taken_N) & ~self._busy_N
