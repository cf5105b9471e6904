"""Settings of the asynchronous system: its sampler-learners, and their central store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from veldt.config.system_settings import RolesConfig, check_even
from veldt.errors import UsageError
from veldt.setting_metadata import Unit
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class AsynchronousConfig(RolesConfig):
    """The sampler-learners of an asynchronous system, and their central store."""

    learners: Annotated[int, Unit("processes")] = 8
    """Sampler-learners, each with its share of the envs and batches of its own; each applies its gradients to the
    central store, independently of the others."""
    chunks: Annotated[int, Unit("chunks")] = 3
    """Parts of the central store that different learners may update at the same time."""
    local_steps: Annotated[int, Unit("updates")] = 1
    """Local updates of a learner before it applies their sum to the central store. Their sums add up, each
    along the same momentum: with eight learners, several local steps learn worse than one (CartPole-v1)."""
    own_moments: bool = False
    """Make a single local step, too, with the learner's own copy of the rule's state, as of its last exchange, and add
    it to the central store (appendix B of Stooke & Abbeel), or apply its gradient to the newest central values (their
    section 4.3)."""
    own_counts: bool = False
    """Count the learner's own updates in Adam's bias correction (appendix B of Stooke & Abbeel), or those of all
    learners, as many as are in the central moments. The former makes early updates smaller with many learners."""
    actor_sync_interval: Annotated[int, Unit("steps")] = 0
    """Steps of each of a learner's envs after which it pulls the central parameters while it samples; 0: only when
    it applies an update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("chunks", "local_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.actor_sync_interval < 0:
            raise UsageError(
                f"--actor-sync-interval is {self.actor_sync_interval}: it must be 0 (never) or more"
            )

    def unread(self) -> dict[str, str]:
        if self.local_steps == 1:
            return {}
        return {"own_moments": f"--local-steps is {self.local_steps}: several are always made so"}

    def check_envs(self, envs: int) -> None:
        check_even(envs, self.learners, "learners", "learner")

    @property
    def cluster_refusal(self) -> str:
        return "its learners share memory, which machines do not"

    @property
    def observation_statistics_refusal(self) -> str:
        return ""

    @property
    def reward_statistics_refusal(self) -> str:
        return ""

    @property
    def is_synchronised(self) -> bool:
        return False

    @property
    def owns_envs(self) -> bool:
        return True
