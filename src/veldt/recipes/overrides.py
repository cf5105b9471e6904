"""The settings that a user gives by name, in the place of a recipe's; refused where the recipe has no such setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.system_settings import ApexConfig, ImpalaConfig
from veldt.config.train_config import TrainConfig
from veldt.errors import UsageError, did_you_mean
from veldt.recipes.draft import NOTHING, Draft, names_of
from veldt.recipes.recipe import RECIPES
from veldt.registry import blaming_plugin
from veldt.replay.settings import ReplayConfig
from veldt.setting_metadata import flag

_REPLAY = names_of(ReplayConfig) | {"checkpoint_replay"}
_ACTORS = names_of(ApexConfig) | names_of(Ga3cConfig) | names_of(ImpalaConfig)
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


def build_config(
    draft: Draft, given: Mapping[str, Any], env_kwargs: Mapping[str, Any] = NOTHING
) -> TrainConfig:
    """Returns the configuration with the user's settings instead of the recipe's. Errors as of `with_settings`."""
    _by_section(draft, given)
    return draft.build(given, env_kwargs)


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """Returns `config` with settings replaced by name, each in its section.

    Raises:
        UsageError: a name is not a setting of this recipe, or a value is not allowed.
        PluginError: a plug-in's settings class raised another exception.
    """
    replaced = {}
    for section, values in _by_section(Draft.of(config), settings).items():
        part = getattr(config, section)
        with blaming_plugin(type(part)):
            replaced[section] = dataclasses.replace(part, **values)
    return dataclasses.replace(config, **replaced)


def _by_section(draft: Draft, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups settings by their section of the configuration. UsageError for one that belongs to none."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section = draft.section_of(name)
        is_here = section is not None and not ("replay" not in draft.classes and name in _REPLAY)
        if not is_here and (why := why_no_setting(draft, name)):
            raise UsageError(why)
        if section is None:
            known = sorted(set().union(*map(names_of, draft.classes.values())))
            raise UsageError(
                f"no setting '{name}'{did_you_mean(name, known)}: see `veldt recipes {draft.recipe}`"
            )
        found.setdefault(section, {})[name] = value
    return found


def why_no_setting(draft: Draft, name: str) -> str | None:
    """Explains why this recipe lacks a setting that other recipes or libraries have; None for an unknown name."""
    if name == "system":
        return (
            f"{flag(name)} is no setting: the recipe {draft.recipe} has the system {draft.system}; take a recipe of "
            f"the system you want, and --algorithm {draft.algorithm} with it (`veldt recipes --matrix`)"
        )
    if (called := _ELSEWHERE.get(name)) is not None:
        if called == "env" or draft.section_of(called):
            return f"{flag(name)} is called {flag(called)} here"
        return f"{flag(name)} is called {flag(called)} in veldt, and {why_no_setting(draft, called)}"
    if "replay" not in draft.classes and name in _REPLAY:
        having = [recipe.name for recipe in RECIPES.values() if "buffer_size" in recipe.setting_names()]
        why = f"about a replay buffer, and {draft.algorithm} learns from fresh rollouts and keeps none"
    else:
        having = [recipe.name for recipe in RECIPES.values() if name in recipe.setting_names()]
        if not having:
            return None
        if draft.in_phases and name in _ACTORS:
            why = f"for actors apart from learners, and in {draft.recipe} the same process acts and learns"
        else:
            chosen = RECIPES[draft.recipe].algorithm != draft.algorithm
            beside = f" with --algorithm {draft.algorithm}" if chosen else ""
            why = f"none of {draft.recipe}'s settings{beside}"
    return f"{flag(name)} is {why}: take a recipe that has it ({', '.join(having)}), or leave it out"
