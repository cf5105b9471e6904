"""Settings that are allowed, but hardly meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config import TrainConfig
from veldt.exchange.gorila_settings import GorilaConfig
from veldt.exchange.settings import ActorsConfig
from veldt.runtime.cores import allowed_cores

_MANY_UPDATES = 8  # for each step: one is much already (Young & Tian 2019)


def doubts_about(config: TrainConfig, given: Mapping[str, Any], *, on_cluster: bool) -> list[str]:
    """A sentence about each, with what to do; `given` are the names of settings that the user has given."""
    cores, threads, warnings = len(allowed_cores()), config.run.threads, []
    if threads > cores:
        warnings.append(
            f"--threads is {threads}, and {cores} cores may be used: threads that wait for each other's cores are many "
            "times slower; 0 chooses"
        )
    actors = config.roles.actors if isinstance(config.roles, ActorsConfig) and "actors" in given else 0
    if actors > cores and not on_cluster:
        warnings.append(
            f"--actors is {actors}, and {cores} cores may be used: actors take turns on them, which costs "
            "little with small environments and helps nothing"
        )
    learners = config.roles.learners if config.in_phases and "learners" in given else 1
    if learners > cores and not on_cluster:
        warnings.append(
            f"--learners is {learners}, and {cores} cores may be used: learners take turns on them, which helps "
            "nothing but to see how so many learn"
        )
    shards = config.roles.parameter_shards if isinstance(config.roles, GorilaConfig) else 1
    if shards > cores and "parameter_shards" in given and not on_cluster:
        warnings.append(
            f"--parameter-shards is {shards:,}, and {cores} cores may be used: each is a process, and the learners' "
            "gradients wait for all of them"
        )
    learn = config.learn
    if isinstance(learn, OffPolicyConfig) and config.run.steps <= learn.learning_starts:
        warnings.append(
            f"--steps is {config.run.steps:,}, and learning starts after {learn.learning_starts:,}: nothing will "
            "be learned; give more steps, or lower --learning-starts"
        )
    if isinstance(learn, OffPolicyConfig) and learn.training_intensity > _MANY_UPDATES * learn.batch:
        updates = learn.training_intensity / learn.batch
        warnings.append(
            f"--training-intensity is {learn.training_intensity:g}, and --batch {learn.batch:,}: acting waits for "
            f"{updates:,.0f} updates for every step; lower it, or take a larger batch"
        )
    return warnings
