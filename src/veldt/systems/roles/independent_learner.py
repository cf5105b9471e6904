"""Units that learn from batches of their own, and have nothing in common but the parameters.

What they share lives apart from them: so one that dies takes its games and its memory with it, and begins anew from
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veldt.envs.seeding import ACTOR, derive_seed
from veldt.exchange.graph import role_name
from veldt.exchange.rate_limiter import RateLimiter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.latest_checkpoint import newest_checkpoint
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
    """`incarnations` is how often it was started in the run before that was resumed: every life plays games of its own."""

    incarnations: int


def independent_plans(
    run_plan: RunPlan, run: Path | None, checkpoint: Checkpoint | None
) -> list[IndependentPlan]:
    """One for each learner of the run."""
    count, lives = run_plan.config.roles.learners, incarnations_of(checkpoint)
    return [
        IndependentPlan(
            run_plan=run_plan.portable,
            rank=rank,
            run=run,
            incarnations=lives.get(role_name("learner", rank, count), 0),
        )
        for rank in range(count)
    ]


class IndependentSamplerLearner(SamplerLearnerRole):
    """See above. Only a run's first life goes on from a checkpoint; one that begins in mid-run, from the others."""

    own_groups = (*SamplerLearnerRole.own_groups, "target")

    def __init__(
        self, control: Control, plan: IndependentPlan, rate_limiter: RateLimiter, ties: GroupContext
    ) -> None:
        config, rank = plan.run_plan.config, plan.rank
        is_first = control.restart_count == 0
        own = state_of_rank(newest_checkpoint(plan.run), plan) if plan.run is not None and is_first else None
        life = plan.incarnations + control.restart_count
        seed = derive_seed(config.run.seed, ACTOR, rank, life) if life else config.run.seed
        units = config.roles.learners
        place = WorkerRank(seed if own is None else own.meta["seed"], rank, units, is_synchronised=False)
        self._goes_on = own is not None
        super().__init__(control, plan, rate_limiter, place, ties, own)

    def load_shared_parameters(self) -> None:
        """Goes on by the parameters of all, which its network has now."""
        learner = self._unit.learner
        if not self._goes_on:
            learner.renew_target()
        # Updates that others have made before this moment do not move its target.
        learner.updates = learner.updates if self._goes_on else int(self._rate_limiter.updates_L[self._rank])
        self._unit.acts_by_newest()

    def sync_state(self) -> SyncState:
        control, rate_limiter = self._control, self._rate_limiter
        done = int(rate_limiter.steps_A[self._rank])
        return SyncState(
            rate_limiter.steps, done, control.stopping, rate_limiter.may_act(), control.requested_snapshot
        )
