"""The named recipes: algorithm x system x a paper's settings, each number with its source.

A recipe has a variant for Atari and one for small environments (vectors), because nobody publishes one setting for
both; the environment decides which is meant.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veldt.config import ALGORITHMS, NetworkConfig, RunConfig, TrainConfig
from veldt.errors import UsageError, did_you_mean
from veldt.runtime.settings import Unit
from veldt.simulators.settings import AtariConfig, SimulationConfig

SA = "Stooke & Abbeel 2018"
_DEFAULT = "veldt's default"
# Sections of the configuration in which a setting is looked up by name.
_SECTIONS: Mapping[str, type[Any]] = {
    "run": RunConfig,
    "simulation": SimulationConfig,
    "network": NetworkConfig,
    "atari": AtariConfig,
}


@dataclass(frozen=True)
class From:
    """A value and where it comes from."""

    value: Any
    source: str


Settings = Mapping[str, From]


@dataclass(frozen=True)
class Recipe:
    """`atari` and `small` are settings by name, over the defaults of the configuration."""

    name: str
    algorithm: str
    system: str
    summary: str
    atari: Settings
    small: Settings

    def settings(self, env: str) -> Settings:
        """What this recipe sets for `env`, by name, in the unit of each setting; for Atari if its name begins ALE/.

        Everything else is at veldt's default. The name is not looked up, so an unknown one is no error.
        """
        return self.atari if env.startswith("ALE/") else self.small

    def config(self, env: str) -> TrainConfig:
        """The configuration with this recipe's values for `env`, and veldt's defaults for the rest."""
        settings = self.settings(env)
        sections = {"learn": ALGORITHMS[self.algorithm][0], **_SECTIONS}
        values: dict[str, dict[str, Any]] = {section: {} for section in sections}
        for name, setting in settings.items():
            values[_section_of(name, sections)][name] = setting.value
        built: dict[str, Any] = {section: cls(**values[section]) for section, cls in sections.items()}
        return TrainConfig(recipe=self.name, algorithm=self.algorithm, env=env, **built)

    def table(self, env: str) -> list[tuple[str, str, str, str]]:
        """(setting, value, unit, source) of every value, for `veldt recipes NAME`."""
        config, settings, rows = self.config(env), self.settings(env), []
        for section in ("learn", *_SECTIONS):
            part = getattr(config, section)
            hints = typing.get_type_hints(type(part), include_extras=True)
            for field in dataclasses.fields(part):
                source = settings[field.name].source if field.name in settings else _DEFAULT
                value = getattr(part, field.name)
                rows.append((field.name, _show(value), _unit(hints[field.name]), source))
        return rows


def _section_of(name: str, sections: Mapping[str, type[Any]]) -> str:
    owners = [
        section for section, cls in sections.items() if name in {f.name for f in dataclasses.fields(cls)}
    ]
    assert len(owners) == 1, f"the setting {name} belongs to {owners or 'no section'}"
    return owners[0]


def _unit(hint: Any) -> str:
    return next((extra.name for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Unit)), "")


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


_A2C = Recipe(
    name="a2c",
    algorithm="a2c",
    system="synchronous",
    summary="Advantage actor-critic, one update per rollout of 5 steps (Mnih et al. 2016; Stooke & Abbeel 2018)",
    atari={
        "num_simulators": From(16, f"{SA}, A.3: base of the scaling"),
        "horizon": From(5, "Mnih et al. 2016: t_max 5"),
        "learning_rate": From(7e-4, f"{SA}, A.3: for 16 simulators"),
        "scale_learning_rate": From("sqrt", f"{SA}, 5.2"),
        "anneal_learning_rate": From(False, "accel_rl"),
        "rmsprop_decay": From(0.99, "Mnih et al. 2016, by the authors' e-mail"),
        "rmsprop_epsilon": From(1e-5, "OpenAI baselines a2c; pytorch-a2c-ppo-acktr"),
        # Squared gradients are near 1e-8 at this batch: inside the root, ε would be all that is left of it.
        "rmsprop_epsilon_inside": From(False, "pytorch-a2c-ppo-acktr (inside in OpenAI baselines)"),
        "rmsprop_initial": From(0.0, "pytorch-a2c-ppo-acktr (1 in OpenAI baselines, by TensorFlow)"),
        "discount": From(0.99, "Mnih et al. 2016"),
        "entropy": From(0.01, "Mnih et al. 2016"),
        "value_weight": From(0.25, "accel_rl; Mnih et al. 2016 (½ gradient of ½ error)"),
        "gradient_clip": From(0.5, "OpenAI baselines a2c; accel_rl"),
        "life_loss_ends": From(True, "accel_rl"),
        "decorrelate": From(100, f"{SA}, 5.2: random number of random steps at the start"),
    },
    small={
        "steps": From(500_000, "RL Zoo, a2c CartPole-v1"),
        "num_simulators": From(8, "RL Zoo, a2c CartPole-v1"),
        "horizon": From(16, "measured here"),
        "learning_rate": From(2e-3, "measured here"),
        "scale_learning_rate": From("none", "measured here"),
        "rmsprop_epsilon_inside": From(True, "RL Zoo (RMSpropTFLike)"),
        "rmsprop_initial": From(0.0, "measured here (1 in RL Zoo's RMSpropTFLike)"),
        "entropy": From(0.0, "RL Zoo, a2c CartPole-v1"),
        "gae_lambda": From(0.95, "measured here"),
        "discount": From(0.99, "RL Zoo"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": From(False, "RL Zoo: separate policy and value networks"),
        "checkpoint_every": From(100_000, _DEFAULT),
    },
)

_PPO = Recipe(
    name="ppo",
    algorithm="ppo",
    system="synchronous",
    summary="Proximal policy optimisation with clipping (Schulman et al. 2017; Stooke & Abbeel 2018)",
    atari={
        "num_simulators": From(16, "measured here: two processes of eight"),
        "batch": From(1024, "Schulman et al. 2017, table 5: 8 x 128; the horizon shrinks as simulators grow"),
        "epochs": From(3, "Schulman et al. 2017, table 5"),
        "minibatches": From(4, f"{SA}, 5.2"),
        "clip": From(0.1, "Schulman et al. 2017, table 5"),
        "anneal_clip": From(True, "Schulman et al. 2017, table 5"),
        "learning_rate": From(
            5e-4, "measured here, for A3C-Net; between the paper's 2.5e-4 and rlpyt's 1e-3"
        ),
        "anneal_learning_rate": From(True, "Schulman et al. 2017, table 5"),
        "gae_lambda": From(0.95, "Schulman et al. 2017, table 5"),
        "discount": From(0.99, "Schulman et al. 2017, table 5"),
        "entropy": From(0.01, "Schulman et al. 2017, table 5"),
        "value_weight": From(0.25, "OpenAI baselines ppo2 (½ · ½; the paper has 1)"),
        "gradient_clip": From(0.5, "OpenAI baselines ppo2"),
        "normalise_advantages": From(True, "OpenAI baselines ppo2"),
        "clip_values": From(True, "OpenAI baselines ppo2"),
        "adam_epsilon": From(1e-5, "OpenAI baselines ppo2"),
        "life_loss_ends": From(True, "accel_rl"),
        "decorrelate": From(100, f"{SA}, 5.2: random number of random steps at the start"),
    },
    small={
        "steps": From(500_000, "measured here"),
        "num_simulators": From(32, "measured here: inference of 32 costs as much as of 8"),
        "batch": From(2048, "measured here"),
        "epochs": From(6, "measured here"),
        "minibatches": From(8, "RL Zoo: 256 steps a minibatch"),
        "clip": From(0.2, "RL Zoo, ppo CartPole-v1"),
        "learning_rate": From(2e-3, "measured here"),
        "anneal_learning_rate": From(False, "measured here"),
        "gae_lambda": From(0.95, "measured here"),
        "discount": From(0.99, "measured here"),
        "entropy": From(0.0, "RL Zoo, ppo CartPole-v1"),
        "value_weight": From(0.5, "RL Zoo"),
        "gradient_clip": From(0.5, "RL Zoo"),
        "clip_values": From(False, "RL Zoo"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": From(False, "RL Zoo: separate policy and value networks"),
        "checkpoint_every": From(100_000, _DEFAULT),
    },
)

RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in (_A2C, _PPO)}


def find(name: str) -> Recipe:
    """The recipe of that name; UsageError, with a suggestion, for an unknown one."""
    if name not in RECIPES:
        raise UsageError(f"no recipe '{name}'{did_you_mean(name, RECIPES)}: known are {', '.join(RECIPES)}")
    return RECIPES[name]
