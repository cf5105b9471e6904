"""The synchronous system: sample, optimise, sample, by one learner or several (Stooke & Abbeel, sections 4.1 and 4.2).

    rank 0: envs, sampler, batch source, learner --gradient--+
                                                             +--mean--> the same update on all ranks
    rank 1: envs, sampler, batch source, learner --gradient--+

A batch is made of the rows that all ranks have sampled or drawn together. So all have the same parameters, bit for bit,
and several ranks learn what one rank with all the envs would (but PPO normalises advantages among a rank's own rows).
One learner runs in the driver's process, several have a process each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veldt.config.system_settings import SynchronousConfig
from veldt.exchange.gradients import AllReduce, GradientEdge, NoAllReduce
from veldt.exchange.graph import Graph, Role
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.weights import Weights
from veldt.learning.snapshot import Groups
from veldt.runs.checkpoint_files import Checkpoint, restoring
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runtime.devices import flush_denormals, nth_device
from veldt.runtime.roles import Control
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.digests import config_digests, weights_digest
from veldt.systems.roles.graph_parts import (
    RENDEZVOUS_S,
    counts_edge,
    evaluators,
    rendezvous_file,
    sampler_learner_deadline_s,
    weights_edge,
)
from veldt.systems.roles.sampler_learner import GroupContext, WorkerRank
from veldt.systems.roles.sampler_learner_role import (
    SamplerLearnerPlan,
    SamplerLearnerRole,
    SyncState,
    state_of_rank,
)
from veldt.systems.synchronous.second_learner import SecondLearner

_COMPARE_EVERY = 256  # phases between checks that all ranks have the same parameters


@dataclass(frozen=True, kw_only=True)
class SynchronousPlan(SamplerLearnerPlan):
    """The ranks meet at the file `rendezvous_file`. `checkpoint` is that to resume from; None: the run's newest."""

    rendezvous_file: Path
    checkpoint: Checkpoint | None = None


def synchronous(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`."""
    config = run_plan.config
    if config.in_one_process:
        return _one_learner(run_plan, run, checkpoint)
    count = config.roles.learners
    rendezvous = rendezvous_file(run)
    rows = run_plan.algorithm().update_rows(config.phase_width) // count
    evaluator_roles = evaluators(run_plan, checkpoint)
    edges = {"rate_limiter": counts_edge(count, rows)}
    if evaluator_roles:
        edges["weights"] = weights_edge(run_plan, "evaluator")
    learner = Role(
        "learner",
        f"acts in {config.envs.num_envs // count} envs, learns from its part of each batch, and "
        "applies the mean of all gradients",
        run_synchronous_learner,
        [
            SynchronousPlan(run_plan=run_plan.for_roles, rank=rank, run=run, rendezvous_file=rendezvous)
            for rank in range(count)
        ],
        [{name: name for name in edges}] * count,
        max_restarts=0,  # the run as a whole resumes from a checkpoint: see `restart_policy`
        is_synchronised=True,
        deadline_s=sampler_learner_deadline_s(config),
        num_checkpointed=count,
        startup_timeout_s=RENDEZVOUS_S,
        gpus=run_plan.gpus_of_learner,
    )
    return Graph((learner, *evaluator_roles), edges)


def _one_learner(run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None) -> Graph:
    """Returns the graph of one role, which runs in the driver's process; the driver evaluates between phases."""
    config = run_plan.config
    plan = SynchronousPlan(
        run_plan=run_plan, rank=0, run=run, rendezvous_file=rendezvous_file(run), checkpoint=checkpoint
    )
    learner = Role(
        "learner",
        f"acts in {config.envs.num_envs} envs, and learns from what it has sampled"
        + (", beside a second learner" if _has_second(run_plan) else ""),
        SynchronousPair if _has_second(run_plan) else SynchronousLearner,
        [plan],
        [{"rate_limiter": "rate_limiter"}],
        max_restarts=0,
        deadline_s=sampler_learner_deadline_s(config),
        num_checkpointed=1,
    )
    return Graph((learner,), {"rate_limiter": counts_edge(1, 0)})


def _has_second(run_plan: RunPlan) -> bool:
    roles = run_plan.config.roles
    return isinstance(roles, SynchronousConfig) and roles.second_batch_size > 0


@flush_denormals()
def run_synchronous_learner(
    control: Control, plan: SynchronousPlan, rate_limiter: RateLimiter, weights: Weights | None = None
) -> None:
    """Entry point of the role in a process of its own: samples and learns until it is asked to stop."""
    SynchronousLearner(control, plan.placed(control.peers), rate_limiter, weights).run()


class SynchronousLearner(SamplerLearnerRole):
    """See the module. Without other learners it is itself the entry point, and the driver gives it its turns."""

    def __init__(
        self,
        control: Control,
        plan: SynchronousPlan,
        rate_limiter: RateLimiter,
        weights: Weights | None = None,
    ) -> None:
        config = plan.run_plan.config
        count = config.roles.learners
        checkpoint = plan.checkpoint
        if checkpoint is None and plan.run is not None:
            checkpoint = newest_checkpoint(plan.run)
        self._edge: GradientEdge = NoAllReduce()
        if count > 1:
            device = nth_device(config.run.device, plan.rank)
            self._edge = AllReduce(plan.rank, count, plan.rendezvous_file, device, control.heartbeat)
        worker_rank = WorkerRank(config.run.seed, plan.rank, count, is_synchronised=True)
        super().__init__(
            control,
            plan,
            rate_limiter,
            worker_rank,
            GroupContext(self._edge, heartbeat=control.heartbeat),
            state_of_rank(checkpoint, plan),
        )
        self._weights, self._phases = weights, 0
        if count > 1:
            self._edge.assert_same_on_all_ranks(config_digests(config))
            self._compare()
        self.publish(weights)

    def sync_state(self) -> SyncState:
        control, number = self._control, self._control.requested_snapshot
        if self._worker_rank.world_size == 1:
            done = int(self._rate_limiter.steps_A[0])
            return SyncState(done, done, control.stopping, self._rate_limiter.may_act(), number)
        own = [
            self._rate_limiter.steps_A[self._rank],
            control.stopping,
            self._rate_limiter.may_act(),
            number,
            number**2,
        ]
        steps, stopping, acting, numbers, squares = self._edge.all_reduce_sum([float(value) for value in own])
        count = self._worker_rank.world_size
        # True if all have seen the same number: where numbers differ, the mean square exceeds the squared mean.
        is_wanted = numbers == count * number and squares == count * number**2
        if is_wanted and number not in (0, self._sent_snapshot):
            self._compare()
        done = round(steps)
        return SyncState(done, done, stopping > 0, acting == count, number if is_wanted else 0)

    def after_phase(self) -> None:
        self._phases += 1
        if self._phases % _COMPARE_EVERY == 0 and self._worker_rank.world_size > 1:
            self._compare()
        self.publish(self._weights)

    def before_snapshot(self) -> None:
        """There is nothing to flush."""

    def shared_groups(self, groups: Groups) -> Groups:
        return {name: groups[name] for name in ("weights", "optimiser", "target") if name in groups}

    def _compare(self) -> None:
        """Checks that all ranks have the same parameters, which only a fault can make differ."""
        self._edge.assert_same_on_all_ranks({"parameters": weights_digest(self._sampler_learner.parameters)})


class SynchronousPair(SynchronousLearner):
    """The learner that acts, and a second one on its replay buffer (`--second-batch-size`), which learns after it."""

    def begin(self, own: Checkpoint | None) -> None:
        super().begin(own)
        first = self._sampler_learner
        self._second = SecondLearner(self._plan.run_plan, first, self._clock)
        if own is not None:
            with restoring(own):
                self._second.restore(own, own.meta["second"])

    def _act_and_learn(self, now: SyncState) -> None:
        super()._act_and_learn(now)
        self._second.learn(now.steps, int(self._steps_A[self._rank]))

    def second_weights(self) -> dict[str, np.ndarray]:
        return self._second.weights()

    def exchange_metrics(self) -> dict[str, float]:
        return self._second.metrics()

    def shared_groups(self, groups: Groups) -> Groups:
        return super().shared_groups(groups) | self._second.groups()

    def _state_besides(self, now: SyncState) -> dict[str, Any]:
        return super()._state_besides(now) | {"second": self._second.counters()}
