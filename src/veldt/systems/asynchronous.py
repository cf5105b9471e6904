"""Asynchronous learners on a central store (Mnih et al. 2016; Stooke & Abbeel, sections 4.3 and 5.2).

    unit: simulators, sampler, experience, learner --gradient--> chunks of the central store: parameters, rule's state
                                                  <--parameters--

Each unit has batches of its own, and applies what it learns from them to what the others have made of the parameters
meanwhile. A unit that dies takes nothing with it but its games: it begins anew from the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from veldt.algorithms.base import Algorithm
from veldt.errors import UsageError
from veldt.exchange.central_store import PARAMETERS, CentralStore, StoreSpec
from veldt.exchange.graph import Edge, Graph, Role
from veldt.exchange.pace import Pace, PaceSpec
from veldt.exchange.settings import AsynchronousConfig
from veldt.exchange.weights import Weights
from veldt.networks.flat import FlatParameters
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.devices import subnormals_flushed
from veldt.runtime.processes import may_have_children
from veldt.runtime.roles import Control
from veldt.simulators.seeding import ACTOR, derive_seed
from veldt.systems.assembly import Assembly
from veldt.systems.common_roles import evaluators, lives_of, unit_deadline_s, weights_edge
from veldt.systems.latest import newest_checkpoint
from veldt.systems.learner import load_state, load_weights, named, named_state
from veldt.systems.optimiser import CentralOptimiser
from veldt.systems.snapshot import Groups
from veldt.systems.unit import Ties, UnitPlace
from veldt.systems.unit_role import Now, UnitPlan, UnitRole, own_part

_MARGIN_S = 60.0  # after which a unit that is silent has surely been killed, and its chunk is free


@dataclass(frozen=True, kw_only=True)
class AsynchronousPlan(UnitPlan):
    """`lives` is how often it was started in the run before that was resumed: every life plays games of its own."""

    lives: int


def asynchronous(assembly: Assembly, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`."""
    config = assembly.config
    settings = config.roles
    assert isinstance(settings, AsynchronousConfig)
    count, width = settings.learners, config.phase_width
    rows = assembly.algorithm().update_rows(width)
    watching, initial = evaluators(assembly, checkpoint), _initial(assembly, checkpoint)
    tensors = len(assembly.network()[1].names)
    if settings.chunks > tensors:
        raise UsageError(
            f"--chunks is {settings.chunks:,}, and the network has {tensors} tensors: take fewer chunks"
        )
    edges = {
        "pace": Edge("learner", "learner", "counts of steps and updates", PaceSpec.free(count, count, rows)),
        "store": Edge(
            "learner",
            "learner",
            f"parameters and the rule's state, in {settings.chunks} chunks with a lock each",
            StoreSpec(initial, settings.chunks, unit_deadline_s(config) + _MARGIN_S),
        ),
    }
    if watching:
        edges["weights"] = weights_edge(assembly, "evaluator")
    lives = lives_of(checkpoint)
    plans = [
        AsynchronousPlan(
            assembly=assembly.portable,
            rank=rank,
            run=run,
            lives=lives.get(f"learner {rank}" if count > 1 else "learner", 0),
        )
        for rank in range(count)
    ]
    learner = Role(
        "learner",
        f"acts in {width} simulators, learns from batches of its own, and brings its gradients to the store",
        run_asynchronous_unit,
        plans,
        [tuple(edges)] * count,
        settings.restarts,
        unit_deadline_s(config),
        keeps=count,
        goes_on_from="the central store",
        gpus=int(assembly.device.type == "cuda"),
    )
    return Graph((learner, *watching), edges)


def _initial(assembly: Assembly, checkpoint: Checkpoint | None) -> Mapping[str, np.ndarray]:
    """What the store begins with: parameters and the rule's state, of a checkpoint if there is one."""
    _, parameters = assembly.network()
    state = assembly.algorithm().rule.state(parameters.master)
    if checkpoint is not None:
        load_weights(parameters, checkpoint.groups["weights"])
        load_state(parameters, state, checkpoint.groups["optimiser"])
    values = {PARAMETERS: parameters.master, **state}
    return {name: value.cpu().numpy() for name, value in values.items()}


@subnormals_flushed()
def run_asynchronous_unit(
    control: Control, plan: AsynchronousPlan, pace: Pace, store: CentralStore, weights: Weights | None = None
) -> None:
    """The role: samples and learns until it is told to stop."""
    may_have_children()
    _AsynchronousUnit(control, plan, pace, store, weights).run()


class _AsynchronousUnit(UnitRole):
    own_groups = (*UnitRole.own_groups, "target")

    def __init__(
        self,
        control: Control,
        plan: AsynchronousPlan,
        pace: Pace,
        store: CentralStore,
        weights: Weights | None,
    ) -> None:
        config, rank = plan.assembly.config, plan.rank
        settings = config.roles
        assert isinstance(settings, AsynchronousConfig)
        self._weights, self._pull_every, self._rows = weights, settings.pull_every, 0
        self._end = store.end(rank, control.beat)
        # A life that begins in mid-run goes on from the store alone.
        is_first = control.attempt == 0
        own = own_part(newest_checkpoint(plan.run), plan) if plan.run is not None and is_first else None
        life = plan.lives + control.attempt
        seed = derive_seed(config.run.seed, ACTOR, rank, life) if life else config.run.seed
        place = UnitPlace(seed if own is None else own.meta["seed"], rank, settings.learners, joint=False)
        ties = Ties(
            optimiser=self._optimiser_of,
            elsewhere=lambda: int(pace.updates_L.sum() - pace.updates_L[rank]),
            beat=self._beat,
        )
        self._local_steps = settings.local_steps
        super().__init__(control, plan, pace, place, ties, own)
        self._optimiser.pull()
        if own is None:
            self._unit.learner.updates = int(pace.updates_L[rank])
            self._unit.learner.renew_target()
            self._unit.acts_by_newest()

    def _optimiser_of(self, algorithm: Algorithm, parameters: FlatParameters) -> CentralOptimiser:
        self._optimiser = CentralOptimiser(algorithm, parameters, self._end, self._local_steps)
        return self._optimiser

    def _beat(self) -> None:
        """Before each step of a group of simulators."""
        self._control.beat()
        self._rows += 1
        if self._pull_every and self._rows % (self._pull_every * len(self._unit.simulators.groups)) == 0:
            self._optimiser.catch_up()
            self._unit.acts_by_newest()

    def agreed(self) -> Now:
        control, pace = self._control, self._pace
        done = int(pace.steps_A[self._rank])
        return Now(pace.steps, done, control.stopping, pace.may_act(), control.snapshot)

    def after_phase(self) -> None:
        if self._weights is not None and self._rank == 0:
            self._weights.publish(self._unit.learner.version, self._unit.parameters.arrays())

    def before_part(self) -> None:
        self._optimiser.exchange()

    def common(self, groups: Groups) -> Groups:
        values = {name: torch.from_numpy(array) for name, array in self._end.copied().items()}
        parameters = self._unit.parameters
        weights = groups["weights"] | named(parameters, values.pop(PARAMETERS))
        return {"weights": weights, "optimiser": named_state(parameters, values)}

    def exchange_figures(self) -> dict[str, float]:
        return {"store/blocked_seconds": self._end.blocked_s, "store/updating_seconds": self._end.updating_s}
