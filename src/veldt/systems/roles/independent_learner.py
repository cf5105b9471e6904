"""Sampler-learners that learn from batches of their own, and share only the parameters.

The shared parameters are held outside their processes: when one dies, its episodes and its replay buffer are lost, and
it restarts from the shared parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veldt.envs.seeding import ACTOR, derive_seed
from veldt.exchange.graph import role_name
from veldt.exchange.rate_limiter import RateLimiter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runtime.roles import Control
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import incarnations_of
from veldt.systems.roles.sampler_learner import GroupContext, WorkerRank
from veldt.systems.roles.sampler_learner_role import (
    SamplerLearnerPlan,
    SamplerLearnerRole,
    SyncState,
    state_of_rank,
)


@dataclass(frozen=True, kw_only=True)
class IndependentPlan(SamplerLearnerPlan):
    """`incarnations` counts its process starts before the run was resumed: every incarnation plays other episodes."""

    incarnations: int


def independent_plans(
    run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None
) -> list[IndependentPlan]:
    """Returns one plan for each learner of the run."""
    count, incarnations = run_plan.config.roles.learners, incarnations_of(checkpoint)
    return [
        IndependentPlan(
            run_plan=run_plan.for_roles,
            rank=rank,
            run=run,
            incarnations=incarnations.get(role_name("learner", rank, count), 0),
        )
        for rank in range(count)
    ]


class IndependentSamplerLearner(SamplerLearnerRole):
    """See the module. Only a run's first incarnation loads the checkpoint; a later one, the shared parameters."""

    own_groups = (*SamplerLearnerRole.own_groups, "target")

    def __init__(
        self, control: Control, plan: IndependentPlan, rate_limiter: RateLimiter, context: GroupContext
    ) -> None:
        config, rank = plan.run_plan.config, plan.rank
        is_first = control.restart_count == 0
        own = state_of_rank(newest_checkpoint(plan.run), plan) if plan.run is not None and is_first else None
        incarnation = plan.incarnations + control.restart_count
        seed = derive_seed(config.run.seed, ACTOR, rank, incarnation) if incarnation else config.run.seed
        if own is not None:
            seed = own.meta["seed"]
        worker_rank = WorkerRank(seed, rank, config.roles.learners, is_synchronised=False)
        self._is_resumed = own is not None
        super().__init__(control, plan, rate_limiter, worker_rank, context, own)

    def load_shared_parameters(self) -> None:
        """Continues from the shared parameters, which its network holds by now."""
        learner = self._sampler_learner.learner
        if not self._is_resumed:
            learner.renew_targets()
        updates = learner.updates if self._is_resumed else int(self._rate_limiter.updates_L[self._rank])
        # Set even if it stays the same: updates that others made before this moment do not move its target networks.
        learner.updates = updates
        self._sampler_learner.acts_by_newest()

    def sync_state(self) -> SyncState:
        control, rate_limiter = self._control, self._rate_limiter
        done = int(rate_limiter.steps_A[self._rank])
        return SyncState(
            rate_limiter.steps, done, control.stopping, rate_limiter.may_act(), control.requested_snapshot
        )
