"""Settings of IMPALA: the number of processes of each kind, and the unrolls of a batch."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated

from veldt.config.system_settings import ActorsConfig
from veldt.errors import UsageError
from veldt.setting_metadata import Unit


@dataclass(frozen=True, kw_only=True)
class ImpalaConfig(ActorsConfig):
    """The processes of IMPALA, and the edges between them."""

    unrolls: Annotated[int, Unit("unrolls")] = 0
    """Unrolls, each of --horizon steps of one env, in a batch; rounded up to a multiple of the unrolls that an actor
    sends at once. 0: one of every env."""
    replay_share: Annotated[float, Unit("of a batch")] = 0.0
    """The part of each batch that is sampled from unrolls that were learned from before."""
    replay_unrolls: Annotated[int, Unit("unrolls")] = 10_000
    """Number of such unrolls that are stored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unrolls < 0:
            raise UsageError(f"--unrolls is {self.unrolls}: it must be 0 (automatic) or more")
        if not 0 <= self.replay_share < 1:
            raise UsageError(f"--replay-share is {self.replay_share}: it must be in [0, 1)")

    @property
    def observation_statistics_refusal(self) -> str:
        return ""

    @property
    def reward_statistics_refusal(self) -> str:
        return ""

    def unread(self) -> dict[str, str]:
        why = "--replay-share is 0, so nothing is learned from twice"
        return {} if self.replay_share else {"replay_unrolls": why}

    def rounded_away(self, envs: int) -> dict[str, str]:
        is_lost = self.replay_share > 0 and not self.drawn_slots(envs)
        return {"replay_share": f"of which nothing is left {self.as_it_comes(envs)}"} if is_lost else {}

    def batch_unrolls(self, envs: int) -> int:
        """Returns the unrolls of a batch: a multiple of what one actor sends at once, for every learner equally."""
        least = self._at_once(envs)
        return -(-(self.unrolls or envs) // least) * least

    def rollouts_of_update(self, envs: int) -> int:
        return self.batch_unrolls(envs) // self.learners

    def drawn_slots(self, envs: int) -> int:
        """Returns the slots of a learner's batch that are sampled from slots that it learned from before."""
        return round(self.replay_share * self._batch_slots(envs))

    def as_it_comes(self, envs: int) -> str:
        """Returns the end of a sentence about a --replay-share that leaves no old or no new unrolls in a batch."""
        unrolls, each = self.batch_unrolls(envs), self._at_once(envs)
        share, rest = self.replay_share, 1.0 - self.replay_share
        about = math.floor(0.5 / min(share, rest))  # for both parts to round to one
        enough = next(slots for slots in itertools.count(about) if 0 < round(share * slots) < slots)
        return f"in a batch of {unrolls} unrolls that come {each} at a time: take at least {enough * each} --unrolls"

    def _at_once(self, envs: int) -> int:
        """Returns the unrolls that one actor sends at once, times the number of learners."""
        return envs // max(1, self.actors) * self.learners

    def _batch_slots(self, envs: int) -> int:
        return self.batch_unrolls(envs) // self._at_once(envs)

    def check_envs(self, envs: int) -> None:
        super().check_envs(envs)
        if not self.actors:
            return
        unrolls = self.batch_unrolls(envs)
        if self.actors < self.learners:
            raise UsageError(
                f"--learners is {self.learners}, and there are {self.actors} actors: take at least an actor for each"
            )
        if self._batch_slots(envs) - self.drawn_slots(envs) < 1:
            where = self.as_it_comes(envs)
            raise UsageError(f"--replay-share is {self.replay_share}, which leaves nothing new {where}")
        if self.replay_share and self.replay_unrolls < unrolls:
            raise UsageError(
                f"--replay-unrolls is {self.replay_unrolls:,}: it must be at least a batch, {unrolls:,}"
            )
