"""Refuses settings that do not fit together, the env or this machine, and warns of others.

`train` and `resume` call `check_request` before anything is measured, and `check_plan` when everything is decided; both
before anything is written. A class of settings checks in its `__post_init__` what it can decide alone, and so does
`TrainConfig` for its sections together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from veldt.agent import make_network
from veldt.algorithms.base import OffPolicy, OnPolicy
from veldt.algorithms.capabilities import OFF_POLICY_CORRECTED
from veldt.algorithms.schedule_settings import try_functions
from veldt.config.run_code import own_names
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.config.warnings import warnings_about
from veldt.envs.settings import AtariConfig
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.learning.optimiser import GroupedRule
from veldt.learning.targets import check_target_networks
from veldt.networks.flat import FlatParameters
from veldt.networks.normaliser import is_normalised
from veldt.networks.recurrent import recurrent_size_of
from veldt.networks.torsos import MLP
from veldt.replay.settings import is_compressed
from veldt.runtime.devices import num_accelerators
from veldt.sampling.checked_actions import num_noise
from veldt.setting_text import flag
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.planning.sizes import check_sizes

# Only an Atari env reports a lost life.
_ATARI_ONLY = {field.name for field in dataclasses.fields(AtariConfig)} | {"terminal_on_life_loss"}

# The settings that do what these wrappers of an environment do.
_INSTEAD_OF = {"NormalizeObservation": "normalise_observations", "NormalizeReward": "normalise_rewards"}


def check_request(request: RunRequest, cluster: str | None) -> None:
    """Raises UsageError where a setting would have no effect, or where the run cannot begin for another known reason.

    Args:
        cluster: where the processes run; None: on this machine, without Ray.
    """
    _refuse_unread(request)
    config = request.config
    if config.envs.env_backend == "atari" and not request.source.is_atari:
        raise UsageError(
            f"--env-backend atari is for Atari games, and {request.source.name} is not one: use auto, in-process or "
            "workers"
        )
    if "__main__" in config.plugins and not config.in_one_process:
        raise UsageError(
            f"{config.recipe} with {config.algorithm} has processes that import what they need, and a part of it is "
            "registered by the script itself: move it into a file of its own, such as mine.py, and import that"
        )
    if cluster is not None and (why := config.roles.cluster_refusal):
        raise UsageError(
            f"--cluster is '{cluster}', and {config.recipe} cannot run there: {why}; leave --cluster out, or take a "
            "recipe of several processes that share no memory"
        )
    if config.run.cuda_graphs and (why := config.roles.cuda_graphs_refusal):
        raise UsageError(
            f"--cuda-graphs is on, and {config.recipe} cannot use CUDA graphs: {why}; leave it out, or take --compile"
        )
    try_functions(config.learn)


def check_plan(
    run_plan: RunPlan, cluster: str | None, given_before: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Raises UsageError where the run plan cannot be carried out here. Returns warnings about what can, as sentences.

    Args:
        cluster: as for `check_request`.
        given_before: as in `RunRequest`.
    """
    config, algorithm = run_plan.config, run_plan.algorithm()
    check_sizes(config, run_plan.spec)
    _refuse_unread_in_plan(run_plan)
    # Not for veldt's own algorithms and networks, which fit: making a network takes up to a second.
    if config.plugins or own_names(config):
        _check_network(run_plan)
    if config.run.cuda_graphs and run_plan.device.type != "cuda":
        raise UsageError(
            f"--cuda-graphs is on, and the device is {run_plan.device}: CUDA graphs exist on CUDA devices only; take "
            "--device cuda, or leave --cuda-graphs out"
        )
    if cluster is None and config.batch_shares > 1:
        devices = num_accelerators(run_plan.device)
        if 0 < devices < config.roles.learners:
            raise UsageError(
                f"--learners is {config.roles.learners}, and there are {devices} accelerators: learners that exchange "
                "gradients need one each; take fewer, or --device cpu"
            )
    if config.roles.learners > 1:
        run_plan.shared_parameters()  # raises an error for a network that cannot be shared
    if config.run.log_saturation:
        _check_halves(run_plan)
    roles = run_plan.graph().roles  # raises an error for parts that do not fit together
    if config.in_one_process and (len(roles) > 1 or len(roles[0].plans) > 1):
        raise UsageError(
            f"the system {config.system} has several processes with these settings, and the settings class "
            f"{type(config.roles).__name__} says in_one_process: make it False there"
        )
    given = {**given_before, **run_plan.given}
    # Where the process that acts also learns, it ends with a whole rollout.
    rollout = run_plan.horizon if isinstance(algorithm, OnPolicy) and config.in_phases else 0
    warnings = warnings_about(config, given, on_cluster=cluster is not None, rollout=rollout)
    return [*warnings, *_about_wrappers(config, run_plan.spec)]


def _about_wrappers(config: TrainConfig, spec: EnvSpec) -> list[str]:
    """Returns a warning for each wrapper of the environment that keeps statistics of its own."""
    warnings = []
    for name in spec.normalising_wrappers:
        setting = _INSTEAD_OF[name]
        is_setting = hasattr(config.network, setting) or hasattr(config.learn, setting)
        instead = (
            f", and take {flag(setting)}"
            if is_setting and not config.roles.statistics_refusals[setting]
            else ""
        )
        warnings.append(
            f"the environment is wrapped in {name}, whose statistics are those of one env alone and in no checkpoint, "
            f"so an evaluation or a resumed run begins with none: leave it out{instead}"
        )
    return warnings


def _check_network(run_plan: RunPlan) -> None:
    """Raises UsageError where the algorithm and the network do not fit together.

    The roles that use them would say the same, but only when all processes have started.
    """
    algorithm, network = run_plan.algorithm(), make_network(run_plan.config, run_plan.spec, run_plan.own)
    parameters = FlatParameters(network)  # on the CPU, also where the roles use an accelerator
    num_noise(algorithm, network)
    if isinstance(algorithm, OffPolicy):
        num_noise(algorithm, network, "update_noise")
        num_noise(algorithm, network, "row_noise")
    check_target_networks(algorithm.target_networks, parameters.names)
    rule = GroupedRule(algorithm.groups, parameters)
    rule.rates(list(rule.members), 0.0, 0.0)


def _check_halves(run_plan: RunPlan) -> None:
    """Raises UsageError where a batch has no half, of whose gradient --log-saturation could take the cosine."""
    config, algorithm = run_plan.config, run_plan.algorithm()
    learns_in_order = OFF_POLICY_CORRECTED in algorithm.capabilities
    if learns_in_order or recurrent_size_of(run_plan.network()[0]):
        size = config.roles.rollouts_of_update(config.envs.num_envs)
        each = "rollout, whose steps stay in their order"
    else:
        size, each = run_plan.update_rows, "step"
    if size < 2:
        raise UsageError(
            f"--log-saturation is on, and a batch with these settings is of one {each}, so that it has no half: take "
            "larger batches, or leave it out"
        )


def _refuse_unread(request: RunRequest) -> None:
    """Raises UsageError if one of the given settings would have no effect, whatever is decided later.

    Recipes may set what an environment or network does not read; a user who sets it expects an effect.
    """
    config, source, names = request.config, request.source, set(request.given)
    if not source.is_atari and (unread := sorted(_ATARI_ONLY & names)):
        raise UsageError(
            f"{flag(unread[0])} is for Atari games (ALE/...), and {source.name} is not one: leave it out, or give the "
            "environment its own settings with --env-kwargs"
        )
    _refuse_unread_by_system(names, config)
    unread_beside = config.learn.unread() | config.roles.unread()
    if unread := sorted(unread_beside.keys() & names):
        raise UsageError(f"{flag(unread[0])} would have no effect: {unread_beside[unread[0]]}; leave it out")
    if config.replay is not None and not config.replay.is_weighted:
        exponents = {"priority_exponent", "importance_exponent", "importance_exponent_end"}
        if unread := sorted(exponents & names):
            raise UsageError(
                f"{flag(unread[0])} is for prioritised replay, and --replay is uniform: leave it out, or take "
                "--replay prioritised"
            )
    if own_names(config) and "precision" in names and config.run.precision == "bf16":
        raise UsageError(
            "--precision is bf16, and what your own network does with its inputs is not known, so it is computed in "
            "fp32: leave --precision out, or convert inside your module"
        )


def _refuse_unread_by_system(names: set[str], config: TrainConfig) -> None:
    only_in_phases = config.roles.only_in_phases()
    if not config.in_phases and (unread := sorted(only_in_phases.keys() & names)):
        raise UsageError(
            f"{flag(unread[0])} would have no effect in {config.recipe}: {only_in_phases[unread[0]]}; leave it out"
        )
    falls = hasattr(config.learn, "epsilon_steps") and "epsilon_steps" not in config.learn.unread()
    if "anneal_by" in names and not falls:
        raise UsageError(
            f"--anneal-by would have no effect: with these settings {config.algorithm}'s exploration does not fall "
            "with time; leave it out"
        )
    if config.in_one_process and "max_restarts" in names:
        raise UsageError(
            "--max-restarts would have no effect: a single learner works in this process, and ends with it; leave it "
            "out, or take more --learners"
        )


def _refuse_unread_in_plan(run_plan: RunPlan) -> None:
    """Raises UsageError if a given setting has no effect on this network, these observations or so many envs."""
    config, given = run_plan.config, run_plan.given
    about_mlps = sorted({"hidden", "layer_norm"} & given.keys())
    if about_mlps and not any(isinstance(part, MLP) for part in run_plan.network()[0].modules()):
        value = getattr(config.network, about_mlps[0])
        text = " ".join(map(str, value)) if isinstance(value, tuple) else "on" if value else "off"
        raise UsageError(
            f"{flag(about_mlps[0])} is {text}, and no part of this network is an MLP: leave it out, or take --network "
            "mlp"
        )
    if given.get("normalise_observations") and not any(
        map(is_normalised, run_plan.spec.observation.values())
    ):
        raise UsageError(
            "--normalise-observations is on, and this environment's observations have no real numbers that it takes, "
            "only images or discrete values (numbers in a Dict space are normalised, those in a Tuple space are not): "
            "leave it out"
        )
    if "compress_frames" in given and not any(map(is_compressed, run_plan.spec.observation.values())):
        raise UsageError(
            "--compress-frames is for images, and this environment's observations have none: leave it out"
        )
    for name, why in config.roles.rounded_away(config.envs.num_envs).items():
        if name in given:
            raise UsageError(f"{flag(name)} is {getattr(config.roles, name)}, {why}")
