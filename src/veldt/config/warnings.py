"""Warnings about settings that are allowed, but probably not intended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veldt import openmp
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.train_config import TrainConfig
from veldt.functional.schedules import parse
from veldt.runtime.cores import allowed_cores
from veldt.setting_text import flag

# The effect of more processes than cores, by setting.
_MORE_THAN_CORES = {
    "actors": "actors take turns on them, which costs little with small environments and helps nothing",
    "learners": "learners take turns on them, which helps nothing but to see how so many learn",
    "parameter_shards": "each is a process, and the learners' gradients wait for all of them",
}
_LARGE_RATE = 0.1  # recipes have at most 2.3e-3
_MANY_UPDATES = 8  # for each step; one is already many (Young & Tian 2019)


def warnings_about(
    config: TrainConfig, given: Mapping[str, Any], *, on_cluster: bool, rollout: int = 0
) -> list[str]:
    """Returns a sentence for each warning, with what to do.

    Args:
        given: the settings that the user has given.
        rollout: steps of each env in a rollout that the run finishes when it has begun; 0: there are none.
    """
    cores, threads, warnings = len(allowed_cores()), config.run.threads, []
    if threads > cores:
        warnings.append(
            f"--threads is {threads}, and {cores} cores may be used: threads that wait for each other's cores are many "
            "times slower; 0 chooses"
        )
    if threads > 1 and openmp.torch_came_first:
        warnings.append(
            f"torch was imported before veldt, so its {threads} threads spin for long while they wait, which can slow "
            f"training beside other programs: import veldt first, or set GOMP_SPINCOUNT={openmp.SPIN_COUNT}"
        )
    for name, why in _MORE_THAN_CORES.items():
        count = getattr(config.roles, name, 0)
        # A warning about learners is only for those that also act.
        if name not in given or count <= cores or on_cluster or (name == "learners" and not config.in_phases):
            continue
        warnings.append(f"{flag(name)} is {count:,}, and {cores} cores may be used: {why}")
    learn = config.learn
    for name in ("learning_rate", "actor_learning_rate"):
        rate = getattr(learn, name, 0.0)
        if isinstance(rate, str):  # of the user's own function, no values are known
            rates = schedule.numbers if (schedule := parse(rate)) else ()
        else:
            rates = (rate,)
        if any(each > _LARGE_RATE for each in rates):
            warnings.append(
                f"{flag(name)} is {rate}: an update then moves parameters so far that networks seldom learn; the "
                f"recipe's value is in `veldt recipes {config.recipe}`"
            )
    envs = config.envs.num_envs
    if config.run.steps < rollout * envs:
        warnings.append(
            f"--steps is {config.run.steps:,}, and a rollout has up to {rollout * envs:,} ({envs:,} envs x "
            f"{rollout:,}, less resets): the run ends with the whole rollout that reaches --steps; give more steps, or "
            "take a shorter rollout or fewer --num-envs"
        )
    if isinstance(learn, OffPolicyConfig) and config.run.steps <= learn.learning_starts:
        warnings.append(
            f"--steps is {config.run.steps:,}, and learning starts after {learn.learning_starts:,}: nothing will "
            "be learned; give more steps, or lower --learning-starts"
        )
    if isinstance(learn, OffPolicyConfig) and learn.training_intensity > _MANY_UPDATES * learn.batch_size:
        updates = learn.training_intensity / learn.batch_size
        warnings.append(
            f"--training-intensity is {learn.training_intensity:g}, and --batch-size {learn.batch_size:,}: acting "
            f"waits for {updates:,.0f} updates for every step; lower it, or take a larger batch"
        )
    return warnings
