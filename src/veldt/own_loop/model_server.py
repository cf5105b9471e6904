"""The model server: one process publishes weights with a version, others pull the newest. It has no process of its own.

    learner --publish(version)--> two copies in shared memory (on Ray: its own) --pull--> actors, evaluators

The edge counts publications, and the version, which the user may give, travels with the arrays. A version may therefore
come twice; that of a learner that was started again does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from veldt.errors import UsageError
from veldt.exchange.graph import Edge, WeightsSpec, Wiring, role_name
from veldt.exchange.weights import Weights
from veldt.own_loop.network_arrays import NetworkArrays, layouts_of, tensors_of
from veldt.own_loop.piece import Parts, Users
from veldt.own_loop.role_process import RoleProcess
from veldt.runtime.shared import Layout

_VERSION = "/version"  # what no tensor is called
_OF_AN_INCARNATION = 1 << 32  # publications


@dataclass(frozen=True)
class ModelServer:
    """Weights with versions: a learner publishes them, actors pull the newest (Ape-X, IMPALA).

    The functions that take the piece get an object with `publish(network)`, `pull(network)` and `version`; see
    `ModelClient`. Neither side waits for the other, but for the first version.

    Args:
        network: makes the network, without arguments; called once, by `run_roles`, for names, shapes and dtypes of
            parameters and buffers. The state of torch's random numbers stays as it was.
        source: the role that publishes: its process 0 does.
        deadline_s: seconds that a pull waits for the first version.

    Source: Horgan et al. 2018, algorithms 1 and 2.
    """

    network: Callable[[], nn.Module]
    source: str
    deadline_s: float = 300.0

    def parts(self, users: Users) -> Parts:
        """See `Piece`."""
        users.count(self.source, "source")
        readers = [role for role in users.counts if role != self.source]
        if not readers:
            raise UsageError(
                f"nobody pulls from the model server '{users.name}': another role must take it, too"
            )
        layouts = layouts_of(self.network, tensors_of, f"the model server '{users.name}'")
        edge = Edge(
            self.source,
            readers[0],
            "weights, two copies that none waits for",
            WeightsSpec({**layouts, _VERSION: Layout((1,), "int64")}),
        )
        return Parts((), {f"{users.name} weights": edge}, layouts)

    def wiring(self, users: Users, role: str, index: int) -> Wiring:
        """See `Piece`."""
        # Readers on other machines ask the first process of the source.
        return {} if role == self.source and index else {"weights": f"{users.name} weights"}

    def open(
        self, users: Users, process: RoleProcess, edges: Mapping[str, Any], layouts: Mapping[str, Layout]
    ) -> ModelClient:
        """See `Piece`."""
        publisher = role_name(self.source, 0, users.counts[self.source])
        return ModelClient(
            users.name,
            process,
            NetworkArrays(layouts, tensors_of),
            edges.get("weights"),
            publisher,
            self,
        )


class ModelClient:
    """What a function gets of a `ModelServer`. `version` is the one published or pulled last, -1 before."""

    def __init__(
        self,
        name: str,
        process: RoleProcess,
        arrays: NetworkArrays,
        edge: Weights | None,
        publisher: str,
        settings: ModelServer,
    ) -> None:
        self._name, self._process, self._network, self._edge = name, process, arrays, edge
        self._publisher, self._settings = publisher, settings
        self.version = -1
        self._version = np.full(1, -1, np.int64)  # as it travels
        self._arrays = {**arrays.arrays, _VERSION: self._version}
        # Of the next publication, or of the one pulled last. Those of a process that is started again go on higher.
        self._number = process.restart_count * _OF_AN_INCARNATION if process.name == publisher else -1
        self._pulled_into: nn.Module | None = None
        if edge is not None and process.name != publisher:
            edge.check(self._arrays)

    def publish(self, network: nn.Module, version: int | None = None) -> int:
        """Publishes a copy of the network's parameters and buffers as the newest, and returns the version.

        Args:
            version: what readers get as the version, 0 or more; by default one more than the last, from 0 on. The
                same may come several times.

        Raises:
            UsageError: this process is not the one that publishes.
            VeldtError: `network` has other parameters or buffers than the piece's (name, shape, dtype).
        """
        if self._edge is None or self._process.name != self._publisher:
            raise UsageError(
                f"the {self._process.name} publishes to the model server '{self._name}': only the {self._publisher} "
                "does, the first process of its source"
            )
        if version is not None and version < 0:
            raise UsageError(f"version is {version}: it must be 0 or more")
        self.version = self.version + 1 if version is None else version
        tensors = self._network.tensors_of(network)
        arrays = {name: np.asarray(tensor.detach().cpu()) for name, tensor in tensors.items()}
        self._edge.publish(self._number, {**arrays, _VERSION: np.array([self.version], np.int64)})
        self._number += 1
        self._process.heartbeat()
        return self.version

    def pull(self, network: nn.Module) -> int:
        """Copies the newest weights into `network` if they were published after the last pulled; returns their version.

        Only the first pull waits, for the first version to be published; -1, and nothing copied, if all processes are
        asked to end meanwhile.

        Raises:
            UsageError: this process is the one that publishes, or is of its role.
            VeldtError: `network` has other parameters or buffers, or nothing was published within `deadline_s`.
        """
        edge = self._edge
        if edge is None or self._process.name == self._publisher:
            raise UsageError(
                f"the {self._process.name} pulls from the model server '{self._name}', whose source is its own role: "
                "only other roles pull"
            )
        before, deadline_s = self._number, self._settings.deadline_s

        def attempt() -> int | None:
            number = edge.pull_if_newer(before, self._arrays)
            return None if number < 0 else number

        number = self._process.wait_for(
            attempt,
            deadline_s,
            lambda: (
                f"nothing was published to the model server '{self._name}' for {deadline_s:g} s: the {self._publisher} "
                "must publish its first weights before it waits for anything"
            ),
        )
        if number is not None and (number != before or network is not self._pulled_into):
            self._number, self.version, self._pulled_into = number, int(self._version[0]), network
            self._network.load(network)
        return self.version
