"""The synchronous system of several learners: the whole unit, once for each (Stooke & Abbeel, section 4.2).

    unit 0: simulators, sampler, experience, learner --gradient--+
                                                                 +--mean--> the same update in all of them
    unit 1: simulators, sampler, experience, learner --gradient--+

A batch is what all have sampled, or drawn, together. So all have the same parameters, bit for bit, and several units
learn what one of the same size would (but that PPO normalises advantages among a unit's own rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veldt.exchange.gradients import AllReduce
from veldt.exchange.graph import Edge, Graph, Role
from veldt.exchange.rate_limiter import Pace, PaceSpec
from veldt.exchange.weights import Weights
from veldt.learning.snapshot import Groups
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.latest_checkpoint import newest_checkpoint
from veldt.runtime.devices import nth_device, subnormals_flushed
from veldt.runtime.processes import may_have_children
from veldt.runtime.roles import Control
from veldt.systems.planning.run_plan import Assembly
from veldt.systems.roles.digests import digest_of_weights, digests_of
from veldt.systems.roles.graph_parts import evaluators, meeting_of, unit_deadline_s, weights_edge
from veldt.systems.roles.sampler_learner import Ties, UnitPlace
from veldt.systems.roles.sampler_learner_role import Now, UnitPlan, UnitRole, own_part

_MEET_S = 300.0  # learners wait for each other
_COMPARE_EVERY = 256  # phases between looks whether all have the same parameters


@dataclass(frozen=True, kw_only=True)
class JointPlan(UnitPlan):
    """Units meet at the file `meeting`."""

    meeting: Path


def units(assembly: Assembly, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """The system for a run in directory `run`, as it begins or goes on from `checkpoint`."""
    config = assembly.config
    count = config.roles.learners
    meeting = meeting_of(run)
    rows = assembly.algorithm().update_rows(config.phase_width) // count
    watching = evaluators(assembly, checkpoint)
    edges = {
        "pace": Edge("learner", "learner", "counts of steps and updates", PaceSpec.free(count, count, rows)),
    }
    if watching:
        edges["weights"] = weights_edge(assembly, "evaluator")
    learner = Role(
        "learner",
        f"acts in {config.simulation.num_simulators // count} simulators, learns from its part of each batch, and "
        "applies the mean of all gradients",
        run_joint_unit,
        [JointPlan(assembly=assembly.portable, rank=rank, run=run, meeting=meeting) for rank in range(count)],
        [tuple(edges)] * count,
        restarts=0,  # the run goes on from a checkpoint: see `joint_run`
        together=True,
        deadline_s=unit_deadline_s(config),
        keeps=count,
        begin_s=_MEET_S,
        gpus=int(assembly.device.type == "cuda"),
    )
    return Graph((learner, *watching), edges)


@subnormals_flushed()
def run_joint_unit(control: Control, plan: JointPlan, pace: Pace, weights: Weights | None = None) -> None:
    """The role: samples and learns until it is told to stop."""
    may_have_children()
    _JointUnit(control, plan, pace, weights).run()


class _JointUnit(UnitRole):
    def __init__(self, control: Control, plan: JointPlan, pace: Pace, weights: Weights | None) -> None:
        config = plan.assembly.config
        count = config.roles.learners
        checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
        device = nth_device(config.run.device, plan.rank)
        self._edge = AllReduce(plan.rank, count, plan.meeting, device, control.beat)
        place = UnitPlace(config.run.seed, plan.rank, count, joint=True)
        super().__init__(
            control, plan, pace, place, Ties(self._edge, beat=control.beat), own_part(checkpoint, plan)
        )
        self._weights, self._phases = weights, 0
        self._edge.agree(digests_of(config))
        self._compare()
        self._publish()

    def agreed(self) -> Now:
        control, number = self._control, self._control.snapshot
        own = [self._pace.steps_A[self._rank], control.stopping, self._pace.may_act(), number, number**2]
        steps, stopping, acting, numbers, squares = self._edge.total([float(value) for value in own])
        count = self._place.units
        # All have seen the same one: of numbers that differ the squares' mean is more than the mean's square.
        is_wanted = numbers == count * number and squares == count * number**2
        if is_wanted and number not in (0, self._said_snapshot):
            self._compare()
        done = round(steps)
        return Now(done, done, stopping > 0, acting == count, number if is_wanted else 0)

    def after_phase(self) -> None:
        self._phases += 1
        if self._phases % _COMPARE_EVERY == 0:
            self._compare()
        self._publish()

    def before_part(self) -> None:
        """Nobody keeps anything to himself."""

    def common(self, groups: Groups) -> Groups:
        return {name: groups[name] for name in ("weights", "optimiser", "target") if name in groups}

    def _compare(self) -> None:
        """Whether all have the same parameters, which nothing but an accident can part."""
        self._edge.agree({"parameters": digest_of_weights(self._unit.parameters)})

    def _publish(self) -> None:
        if self._weights is not None and self._rank == 0:
            self._weights.publish(self._unit.learner.version, self._unit.parameters.arrays())
