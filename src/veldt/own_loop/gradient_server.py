"""The gradient server: a process that has the parameters, and applies the gradients of several learners to them.

    learner 0 ==gradient, version==> ring 0 --+
    learner 1 ==gradient, version==> ring 1 --+==> server --publish(version)--> every process that takes the piece

A learner that pushes does not wait for the update, so what it pulls next may lack its own last gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from veldt.errors import UsageError, diverged
from veldt.exchange.graph import Edge, Role, SlotsSpec, WeightsSpec, Wiring
from veldt.exchange.parameter_partition import COUNTS, ShardCounts
from veldt.exchange.slots import Arrays, Slots
from veldt.exchange.weights import Weights
from veldt.own_loop.network_arrays import NetworkArrays, layouts_of, parameters_of
from veldt.own_loop.piece import HUNG_S, STARTUP_TIMEOUT_S, Parts, Users
from veldt.own_loop.role_process import RoleProcess, own_errors
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.runtime.shared import Layout
from veldt.systems.roles.gradient_serving import Staleness, serve_gradients
from veldt.user_code import by_value

_DEPTH = 2  # gradients of each learner in flight: one is applied while the next is written
_BASE = "/base"  # what no parameter is called
_POLL_S = 0.25


@dataclass(frozen=True)
class GradientServer:
    """A server of parameters: learners push gradients, and pull the parameters after the updates (A3C, Gorila).

    The functions that take the piece get an object with `pull(network)`, `push(network)`, `version` and `discarded`;
    see `GradientClient`.

    Args:
        network: makes the network, without arguments; called once by `run_roles`, for names, shapes and dtypes, and
            once by the server, for its first parameters. In `run_roles` the state of torch's random numbers stays as it
            was.
        optimiser: makes the optimiser of these parameters, which the server steps once for each gradient:
            `lambda parameters: torch.optim.Adam(parameters, lr=1e-3)`.
        source: the role that pushes. Other roles that take the piece only pull.
        max_staleness: updates that may have been made since a gradient's parameters were pulled; older gradients are
            discarded and counted. 0: none is.
        deadline_s: seconds that a pull waits for the first parameters, and a push for the server.

    Source: Mnih et al. 2016, algorithm S3; Nair et al. 2015, section 4.
    """

    network: Callable[[], nn.Module]
    optimiser: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    source: str
    max_staleness: int = 0
    deadline_s: float = 300.0

    def parts(self, users: Users) -> Parts:
        """See `Piece`."""
        learners, server = users.count(self.source, "source"), f"{users.name} server"
        layouts = layouts_of(self.network, parameters_of, f"the gradient server '{users.name}'")
        edges = {
            f"{users.name} gradients": Edge(
                self.source,
                server,
                f"gradients with the version they are of, {_DEPTH} for each process, full ones block",
                SlotsSpec(layouts | {_BASE: Layout((1,), "int64")}, learners, _DEPTH),
            ),
            f"{users.name} parameters": Edge(
                server,
                self.source,
                "parameters, two copies that none waits for",
                WeightsSpec(_with_counts(layouts)),
            ),
        }
        code = by_value.dumps((self.network, self.optimiser), self.network, self.optimiser)
        role = Role(
            server,
            "has the parameters, and applies gradients to them",
            run_gradient_server,
            [GradientServerPlan(code, self.max_staleness, learners)],
            [{"gradients": f"{users.name} gradients", "parameters": f"{users.name} parameters"}],
            max_restarts=0,
            deadline_s=HUNG_S,
            startup_timeout_s=STARTUP_TIMEOUT_S,
        )
        return Parts((role,), edges, layouts)

    def wiring(self, users: Users, role: str, index: int) -> Wiring:
        """See `Piece`."""
        pushes = {"gradients": f"{users.name} gradients"} if role == self.source else {}
        return pushes | {"parameters": f"{users.name} parameters"}

    def open(
        self, users: Users, process: RoleProcess, edges: Mapping[str, Any], layouts: Mapping[str, Layout]
    ) -> GradientClient:
        """See `Piece`."""
        return GradientClient(
            users.name,
            process,
            layouts,
            edges["parameters"],
            edges.get("gradients"),
            self.source,
            self.deadline_s,
        )


class GradientClient:
    """What a function gets of a `GradientServer`.

    `version` is that of the parameters pulled last, the number of updates that made them, -1 before. `discarded` are
    the gradients of all learners that were too old, as of that pull.
    """

    def __init__(
        self,
        name: str,
        process: RoleProcess,
        layouts: Mapping[str, Layout],
        parameters: Weights,
        gradients: Slots | None,
        source: str,
        deadline_s: float,
    ) -> None:
        self._name, self._process, self._source, self._deadline_s = name, process, source, deadline_s
        self._edge, self._network = parameters, NetworkArrays(layouts, parameters_of)
        self._counts = np.zeros(len(ShardCounts._fields), np.int64)
        self._into = {**self._network.arrays, COUNTS: self._counts}
        parameters.check(self._into)
        self._out = None if gradients is None else gradients.producer(process.index)
        self.version = -1

    @property
    def discarded(self) -> int:
        return ShardCounts(*self._counts.tolist()).stale

    def pull(self, network: nn.Module) -> int:
        """Copies the newest parameters into `network`, and returns their version, the number of updates.

        Only the first pull waits, for the server to begin; -1, and nothing copied, if all are asked to end meanwhile.

        Raises:
            VeldtError: `network` has other parameters than the server's (name, shape, dtype), or the server has not
                begun within `deadline_s`.
        """

        def attempt() -> int | None:
            version = self._edge.pull_if_newer(self.version, self._into)
            return None if version < 0 else version

        version = self._process.wait_for(
            attempt,
            self._deadline_s,
            lambda: f"the gradient server '{self._name}' has sent no parameters for {self._deadline_s:g} s",
        )
        if version is not None:
            self.version = version
            self._network.load(network)
        return self.version

    def push(self, network: nn.Module) -> None:
        """Sends the gradients of `network`, the `.grad` of its parameters; zeros where one has none.

        Waits while the server has yet to apply two earlier ones of this process. Nothing is sent if all processes are
        asked to end meanwhile.

        Raises:
            UsageError: this role is not the `source`, nothing was pulled before, or no parameter has a gradient.
            VeldtError: a gradient is not finite; or the server has taken none within `deadline_s`.
        """
        if self._out is None:
            raise UsageError(
                f"the {self._process.name} pushes to the gradient server '{self._name}', whose source is "
                f"'{self._source}': only that role pushes"
            )
        if not self._process.running:
            return
        if self.version < 0:
            raise UsageError(
                f"a gradient is pushed to '{self._name}' before parameters were pulled: pull first"
            )
        gradients = {name: value.grad for name, value in self._network.tensors_of(network).items()}
        if all(gradient is None for gradient in gradients.values()):
            raise UsageError(
                f"no parameter has a gradient to push to '{self._name}': call loss.backward() before"
            )
        out = self._out
        slot = self._process.wait_for(
            lambda: out.slot(_POLL_S),
            self._deadline_s,
            lambda: f"the gradient server '{self._name}' has taken no gradient for {self._deadline_s:g} s",
        )
        if slot is None:
            return
        for name, gradient in gradients.items():
            slot[name][...] = 0 if gradient is None else gradient.cpu().numpy()
            if not math.isfinite(slot[name].sum()) and not np.isfinite(slot[name]).all():
                raise diverged(
                    f"the gradient of '{name}' is not finite", "the learning rate, or clip gradients"
                )
        slot[_BASE][0] = self.version
        out.commit()


def _with_counts(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    return {**layouts, COUNTS: Layout((len(ShardCounts._fields),), "int64")}


@dataclass(frozen=True)
class GradientServerPlan:
    """`code` is what makes network and optimiser, by cloudpickle, from the program itself."""

    code: bytes
    max_staleness: int
    learners: int


@flush_denormals()
def run_gradient_server(
    control: Control, plan: GradientServerPlan, gradients: Slots, parameters: Weights
) -> None:
    """Entry point of the server: applies gradients until it is asked to stop."""
    torch.set_num_threads(1)
    with own_errors():
        make_network, make_optimiser = by_value.loads(plan.code)
        network = make_network()
        holder = _Holder(network, make_optimiser(network.parameters()), plan.max_staleness)
        serve_gradients(control, holder, holder.apply, gradients.consumer(), parameters, plan.learners)


class _Holder:
    """See `GradientHolder`."""

    def __init__(self, network: nn.Module, optimiser: torch.optim.Optimizer, max_staleness: int) -> None:
        self._parameters, self._optimiser = parameters_of(network), optimiser
        self._staleness, self.version = Staleness(max_staleness, ShardCounts()), 0

    def apply(self, arrays: Arrays) -> bool:
        """Steps the optimiser once with a received gradient; returns False if it is too old."""
        if not self._staleness.admits(self.version, int(arrays[_BASE][0])):
            return False
        for name, parameter in self._parameters.items():
            parameter.grad = torch.from_numpy(arrays[name])
        self._optimiser.step()
        self.version += 1
        return True

    def published(self) -> dict[str, np.ndarray]:
        values = {name: parameter.detach().numpy() for name, parameter in self._parameters.items()}
        return {**values, COUNTS: np.array(self._staleness.counts, np.int64)}
