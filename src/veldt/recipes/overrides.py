"""The settings that a user gives by name: put into the configuration, and refused where they would have no effect.

Networks are imported only where they are needed: the command line uses this module to read its flags, and must answer
a mistyped flag without waiting for torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.system_settings import ApexConfig, ImpalaConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError, did_you_mean
from veldt.recipes import RECIPES
from veldt.replay.settings import ReplayConfig, is_compressed
from veldt.setting_metadata import flag

if TYPE_CHECKING:
    from torch import nn

SECTIONS = ("run", "learn", "replay", "network", "envs", "atari", "roles")
_REPLAY = {field.name for field in dataclasses.fields(ReplayConfig)} | {"checkpoint_replay"}
# Settings of systems whose acting and learning alternate, and why actors have none of them.
_IN_PHASES = {
    "env_backend": "actors have their envs in their own processes",
    "processes": "--actors sets the number of processes that act",
    "alternate": "each actor has one group of envs",
    "resets": "actors do not pause for learning",
    "horizon": "acting and learning do not take turns (--actor-chunk sets how much an actor sends at once)",
}
# The same, for GA3C's agents.
_OF_AGENTS = {
    "env_backend": "agents have their envs in the agent processes",
    "processes": "--agent-processes sets the number of agent processes",
    "alternate": "each agent steps on its own",
    "resets": "agents do not pause for learning",
}
_ACTORS = {field.name for cls in (ApexConfig, Ga3cConfig, ImpalaConfig) for field in dataclasses.fields(cls)}
# Names of settings in other libraries (Stable-Baselines3, CleanRL, RLlib, Acme), and veldt's names for them.
_ELSEWHERE = {
    "clip_coef": "clip",
    "clip_param": "clip",
    "clip_range": "clip",
    "discount": "gamma",
    "entropy_coeff": "ent_coef",
    "env_id": "env",
    "grad_clip": "max_grad_norm",
    "lr": "learning_rate",
    "n_envs": "num_envs",
    "n_epochs": "epochs",
    "n_steps": "horizon",
    "num_actors": "actors",
    "num_env_runners": "actors",
    "num_learners": "learners",
    "num_minibatches": "minibatches",
    "num_steps": "horizon",
    "replay_size": "buffer_size",
    "samples_per_insert": "training_intensity",
    "target_network_frequency": "target_update_interval",
    "target_network_update_freq": "target_update_interval",
    "total_timesteps": "steps",
    "train_batch_size": "batch_size",
    "update_epochs": "epochs",
    "vf_loss_coeff": "vf_coef",
}
# Only an Atari env reports a lost life.
_ATARI_ONLY = {field.name for field in dataclasses.fields(AtariConfig)} | {"terminal_on_life_loss"}


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """Returns `config` with settings replaced by name, each in its section.

    Raises:
        UsageError: a name is not a setting of this recipe, or a value is not allowed.
    """
    changes = by_section(config, settings)
    replaced = {s: dataclasses.replace(getattr(config, s), **values) for s, values in changes.items()}
    return dataclasses.replace(config, **replaced)


def by_section(config: TrainConfig, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups settings by their section of the configuration. UsageError for one that belongs to none."""
    sections = {section: part for section in SECTIONS if (part := getattr(config, section)) is not None}
    fields = {section: {f.name for f in dataclasses.fields(part)} for section, part in sections.items()}
    found: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section = next((section for section in fields if name in fields[section]), None)
        is_here = section is not None and not (config.replay is None and name in _REPLAY)
        if not is_here and (why := why_no_setting(config, name)):
            raise UsageError(why)
        if section is None:
            known = sorted(set().union(*fields.values()))
            raise UsageError(
                f"no setting '{name}'{did_you_mean(name, known)}: see `veldt recipes {config.recipe}`"
            )
        found.setdefault(section, {})[name] = value
    return found


def why_no_setting(config: TrainConfig, name: str) -> str | None:
    """Explains why this recipe lacks a setting that other recipes or libraries have; None for an unknown name."""
    if name == "system":
        return (
            f"{flag(name)} is no setting: the recipe {config.recipe} has the system {config.system}; take a recipe of "
            f"the system you want, and --algorithm {config.algorithm} with it (`veldt recipes --matrix`)"
        )
    if (called := _ELSEWHERE.get(name)) is not None:
        parts = [getattr(config, section) for section in SECTIONS]
        if called == "env" or any(hasattr(part, called) for part in parts):
            return f"{flag(name)} is called {flag(called)} here"
        return f"{flag(name)} is called {flag(called)} in veldt, and {why_no_setting(config, called)}"
    if config.replay is None and name in _REPLAY:
        having = [recipe.name for recipe in RECIPES.values() if "buffer_size" in recipe.setting_names()]
        why = f"about a replay buffer, and {config.algorithm} learns from fresh rollouts and keeps none"
    else:
        having = [recipe.name for recipe in RECIPES.values() if name in recipe.setting_names()]
        if not having:
            return None
        if config.in_phases and name in _ACTORS:
            why = f"for actors apart from learners, and in {config.recipe} the same process acts and learns"
        else:
            chosen = RECIPES[config.recipe].algorithm != config.algorithm
            beside = f" with --algorithm {config.algorithm}" if chosen else ""
            why = f"none of {config.recipe}'s settings{beside}"
    return f"{flag(name)} is {why}: take a recipe that has it ({', '.join(having)}), or leave it out"


def refuse_unread(names: Collection[str], config: TrainConfig, source: EnvSource, own_network: bool) -> None:
    """Raises UsageError if one of the settings in `names` would have no effect in this run.

    Recipes may set what an environment or network does not read; a user who sets it expects an effect.

    Args:
        own_network: whether the network is the user's own module.
    """
    if not source.is_atari and (unread := sorted(_ATARI_ONLY & set(names))):
        raise UsageError(
            f"{flag(unread[0])} is for Atari games (ALE/...), and {source.name} is none: leave it out, or give the "
            "environment its own settings with --env-kwargs"
        )
    in_phases = _OF_AGENTS if isinstance(config.roles, Ga3cConfig) else _IN_PHASES
    unread_here = in_phases.keys() - ({"horizon"} if config.replay is None else set())
    if not config.in_phases and (unread := sorted(unread_here & set(names))):
        raise UsageError(
            f"{flag(unread[0])} is for the synchronous system, and in {config.recipe} {in_phases[unread[0]]}: leave "
            "it out"
        )
    falls = hasattr(config.learn, "epsilon_steps") and "epsilon_steps" not in config.learn.unread()
    if "anneal_by" in names and not falls:
        raise UsageError(
            f"--anneal-by is for exploration that falls with time, and that of {config.algorithm} does not here: leave "
            "it out"
        )
    if config.in_one_process and "max_restarts" in names:
        raise UsageError(
            "--max-restarts would have no effect: a single learner works in this process, and ends "
            "with it; leave it out, "
            "or take more --learners"
        )
    if isinstance(config.roles, ImpalaConfig) and not config.roles.replay_share and "replay_unrolls" in names:
        raise UsageError(
            "--replay-unrolls would have no effect: --replay-share is 0, so nothing is learned from twice; leave it "
            "out, or give a share"
        )
    unread_beside = config.learn.unread() | config.roles.unread()
    if unread := sorted(set(unread_beside) & set(names)):
        raise UsageError(f"{flag(unread[0])} would have no effect: {unread_beside[unread[0]]}; leave it out")
    if config.replay is not None and config.replay.replay == "uniform":
        exponents = {"priority_exponent", "importance_exponent", "importance_exponent_end"}
        if unread := sorted(exponents & set(names)):
            raise UsageError(
                f"{flag(unread[0])} is for prioritised replay, and --replay is uniform: leave it out, or take "
                "--replay prioritised"
            )
    if own_network and "precision" in names and config.run.precision == "bf16":
        raise UsageError(
            "--precision is bf16, and what your own network does with its inputs is not known, so it is computed in "
            "fp32: leave --precision out, or convert inside your module"
        )


def refuse_unread_mlp(names: Collection[str], config: TrainConfig, network: nn.Module) -> None:
    """Raises UsageError if one of the settings in `names` is about MLPs, and no part of `network` is one."""
    from veldt.networks.torsos import MLP

    unread = sorted({"hidden", "layer_norm"} & set(names))
    if unread and not any(isinstance(part, MLP) for part in network.modules()):
        value = getattr(config.network, unread[0])
        text = " ".join(map(str, value)) if isinstance(value, tuple) else "on" if value else "off"
        raise UsageError(
            f"{flag(unread[0])} is {text}, and no part of this network is an MLP: leave it out, or take --network mlp"
        )


def refuse_unread_share(names: Collection[str], config: TrainConfig) -> None:
    """Raises UsageError if `--replay-share` was given, and it rounds to zero slots of a batch."""
    roles, envs = config.roles, config.envs.num_envs
    if "replay_share" not in names or not isinstance(roles, ImpalaConfig) or not roles.replay_share:
        return
    if not roles.drawn_slots(envs):
        raise UsageError(
            f"--replay-share is {roles.replay_share}, of which nothing is left {roles.as_it_comes(envs)}"
        )


def refuse_unread_compression(names: Collection[str], spec: EnvSpec) -> None:
    """Raises UsageError if `--compress-frames` was given, and no observation is an image that it would compress."""
    if "compress_frames" in names and not any(is_compressed(field) for field in spec.observation.values()):
        raise UsageError(
            "--compress-frames is for images, and this environment's observations have none: leave it out"
        )
