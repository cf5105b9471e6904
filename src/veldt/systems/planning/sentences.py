"""The sentences that tell the user what was decided: where envs and roles run, and what an optimisation phase is."""

from __future__ import annotations

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.arrangement import Arrangement
from veldt.formatting import counted
from veldt.runtime.cores import allowed_cores


def describe(config: TrainConfig, arrangement: Arrangement, horizon: int, accelerators: int) -> list[str]:
    """Returns a sentence for each decision.

    Args:
        config: without any `auto`.
        arrangement: of the envs, where learners have them; of one learner where each has some.
        horizon: steps of each env between optimisation phases.
        accelerators: how many are used.
    """
    if config.roles.has_acting_processes:
        return [_describe_roles(config, accelerators)]
    learners = config.roles.learners
    whose = "this" if config.in_one_process else "its own"
    envs = _describe_envs(arrangement, config.envs.num_envs // learners, horizon, whose)
    sentences = [envs if learners == 1 else f"{learners} learners, each with {envs}"]
    if isinstance(config.learn, OffPolicyConfig):
        sentences.append(_describe_phase(config.learn, config.phase_width))
    return sentences


def _describe_roles(config: TrainConfig, accelerators: int) -> str:
    where = (
        "on the accelerator" if accelerators else f"with {counted(config.run.threads, 'thread', 'threads')}"
    )
    processes = config.roles.describe(config.envs.num_envs, where)
    return f"{processes}, on {counted(len(allowed_cores()), 'core', 'cores')}"


def _describe_envs(chosen: Arrangement, envs: int, horizon: int, whose: str) -> str:
    if chosen.backend == "in-process":
        each = counted(envs, "env", "envs")
        groups = ", two alternating groups" if chosen.groups == 2 else ""
        return f"{each} x {horizon} steps, in {whose} process{groups} ({chosen.reason})"
    groups = "two alternating groups" if chosen.groups == 2 else "one group"
    cores = sorted(set(chosen.cores))
    where = f"{counted(chosen.processes, 'process', 'processes')} on {'core' if len(cores) == 1 else 'cores'}"
    return (
        f"{counted(envs, 'env', 'envs')} x {horizon} steps, in {where} "
        f"{', '.join(map(str, cores))}, {groups} ({chosen.reason})"
    )


def _describe_phase(learn: OffPolicyConfig, envs: int) -> str:
    updates = learn.updates_per_phase(envs)
    return (
        f"after each {learn.steps_per_phase(envs) * envs:,} steps {updates:g} "
        f"{'update' if updates == 1 else 'updates'} of {learn.batch_size:,} transitions (each step is used "
        f"{learn.training_intensity:g} times), learning rate {learn.scaled_learning_rate()}"
    )
