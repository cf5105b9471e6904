"""A recipe: algorithm x system x a paper's settings, each number with its source."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.settings import AlgorithmConfig
from veldt.config import recipe_registry
from veldt.config.fit import check_fits
from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import NetworkConfig, RunConfig, TrainConfig
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import ATARI_PREFIX
from veldt.errors import UsageError
from veldt.recipes.draft import Draft, names_of
from veldt.recipes.env_family import FAMILIES, family_of
from veldt.recipes.taken_names import check_names
from veldt.registry import Registry
from veldt.replay.settings import ReplayConfig
from veldt.setting_metadata import Unit, annotated_hints_of
from veldt.setting_text import in_table

SA = "Stooke & Abbeel 2018"
DEFAULT = "veldt's default"
# Sections of the configuration that a recipe's settings may be in, besides learn and roles.
_SECTIONS: Mapping[str, type[Any]] = {
    "run": RunConfig,
    "replay": ReplayConfig,
    "envs": EnvConfig,
    "network": NetworkConfig,
    "atari": AtariConfig,
}


@dataclass(frozen=True)
class Sourced:
    """A value and its source."""

    value: Any
    source: str


Settings = Mapping[str, Sourced]

# For every recipe on Atari.
EVALUATION: Settings = {
    "evaluate_every": Sourced(1_000_000, f"{SA}, 5"),
    "evaluate_steps": Sourced(125_000, f"{SA}, 5"),
}


@dataclass(frozen=True)
class Recipe:
    """Settings that override the configuration's defaults, by their names, for each kind of env.

    Args:
        atari: for ALE's games.
        small: for every other env.
        presets: what differs from `small`, by an env's name (`Pendulum-v1`, `module:function`), or by a family of envs
            (a key of `env_family.FAMILIES`). The preset of an env's name takes the place of its family's.
        base: of a paper recipe (`paper_recipe.py`), the recipe that it differs from; it has values for Atari alone.
    """

    name: str
    algorithm: str
    system: str
    summary: str
    atari: Settings
    small: Settings
    presets: Mapping[str, Settings] = field(default_factory=dict)
    base: Recipe | None = None

    def settings(self, env: str, algorithm: str | None = None) -> Settings:
        """Returns this recipe's settings for `env`, by name: those for Atari if the name begins with ALE/.

        All other settings have veldt's default. The env is not made, and an unknown one is no error. Another
        algorithm than the recipe's gets its learning settings from the nearest recipe (`_nearest`), and no half presets
        (`preset_of`).
        """
        algorithm = self.algorithm if algorithm is None else algorithm
        values = self._without_presets(env, algorithm)
        key = self.preset_of(env, algorithm)
        if key is None:
            return values
        known, preset = self.setting_names(algorithm), self._presets_for(algorithm)[key]
        return {**values, **{name: value for name, value in preset.items() if name in known}}

    def _without_presets(self, env: str, algorithm: str) -> Settings:
        settings = self.atari if env.startswith(ATARI_PREFIX) else self.small
        if algorithm == self.algorithm:
            return settings
        nearest, names = self._nearest(algorithm), names_of(ALGORITHMS[algorithm].settings)
        if nearest is self:
            # A variant learns by these settings, and by its own where its class adds one or changes a default.
            names &= _declared(ALGORITHMS[algorithm].settings, ALGORITHMS[self.algorithm].settings)
            own = next((recipe for recipe in RECIPES.values() if recipe.algorithm == algorithm), None)
            learned = own.settings(env) if own else {}
        else:
            names |= names_of(ReplayConfig)
            learned = nearest._without_presets(env, algorithm) if nearest else {}
        known = self.setting_names(algorithm)
        return {name: value for name, value in settings.items() if name in known - names} | {
            name: value for name, value in learned.items() if name in names & known
        }

    def preset_of(self, env: str, algorithm: str | None = None) -> str | None:
        """Returns the key in `presets` of what this env gets besides other values; None if it gets no preset.

        Another algorithm than the recipe's has the presets of the recipe whose values it learns by, and each of them
        in full: learning settings were measured together with, say, the number of envs.
        """
        if env.startswith(ATARI_PREFIX):
            return None
        presets = self._presets_for(algorithm or self.algorithm)
        return next((key for key in (env, family_of(env)) if key in presets), None)

    def _presets_for(self, algorithm: str) -> Mapping[str, Settings]:
        """Returns the presets that `algorithm` has in this recipe."""
        nearest = self if algorithm == self.algorithm else self._nearest(algorithm)
        if nearest is None or nearest.system != self.system:
            # Its presets may switch on what this recipe's system refuses, such as normalised observations.
            return {}
        return nearest.presets

    def values_for(self, env: str, algorithm: str | None = None) -> str:
        """Returns in words for which envs the recipe's values for `env` are: 'Atari', 'Box2D', 'small environments'."""
        if env.startswith(ATARI_PREFIX):
            return "Atari"
        preset = self.preset_of(env, algorithm)
        return FAMILIES.get(preset, preset) if preset else "small environments"

    def _nearest(self, algorithm: str) -> Recipe | None:
        """Returns a recipe of `algorithm`'s family, if possible of this system, and if possible of `algorithm` itself;
        None if the family has no recipe."""
        family = _family(algorithm)
        alike = [recipe for recipe in (self, *RECIPES.values()) if _family(recipe.algorithm) is family]
        return min(
            alike,
            key=lambda recipe: (recipe.system != self.system, recipe.algorithm != algorithm),
            default=None,
        )

    def config(self, env: str, algorithm: str | None = None) -> TrainConfig:
        """Returns the configuration with this recipe's values for `env`, and veldt's defaults for the rest.

        Args:
            algorithm: as for `draft`.
        """
        return self.draft(env, algorithm).build()

    def draft(self, env: str, algorithm: str | None = None) -> Draft:
        """Returns this recipe's values for `env`, before they are checked.

        Args:
            algorithm: another than the recipe's own. UsageError where it does not fit the system, or where two of
                their settings have one name, or where a paper recipe has no values for the env.
        """
        algorithm = self.algorithm if algorithm is None else algorithm
        if self.base is not None and not env.startswith(ATARI_PREFIX):
            raise UsageError(
                f"--env is {env}, and {self.name} has a paper's values for Atari games (ALE/...) alone: give such a "
                f"game, or take {self.base.name}, which has values for other environments"
            )
        ALGORITHMS.find(algorithm, f"--algorithm is '{algorithm}'")
        check_fits(self.system, algorithm)
        classes = self.sections(algorithm)
        check_names(algorithm, self.system, classes)
        values = {name: setting.value for name, setting in self.settings(env, algorithm).items()}
        return Draft(self.name, algorithm, self.system, env, classes, values)

    def sections(self, algorithm: str | None = None) -> dict[str, type[Any]]:
        """Returns the settings class of each section of the configuration; None is the recipe's own algorithm."""
        learn, roles = ALGORITHMS[algorithm or self.algorithm].settings, SYSTEMS.find(self.system).settings
        sections = {"learn": learn, **_SECTIONS, "roles": roles}
        if not issubclass(learn, OffPolicyConfig):
            del sections["replay"]
        return sections

    def setting_names(self, algorithm: str | None = None) -> set[str]:
        """Returns the names of all settings that the recipe has; None is its own algorithm."""
        return set().union(*map(names_of, self.sections(algorithm).values()))

    def table(self, config: TrainConfig, given: Collection[str] = ()) -> list[tuple[str, str, str, str]]:
        """Returns (setting, value, unit, source) for every setting of this recipe's `config`, for `veldt recipes NAME`.

        `given` are the names of the settings that the user has changed.
        """
        settings, rows = self.settings(config.env, config.algorithm), []
        for section in self.sections(config.algorithm):
            part = getattr(config, section)
            hints = annotated_hints_of(type(part))
            for setting in dataclasses.fields(part):
                source = settings[setting.name].source if setting.name in settings else DEFAULT
                if setting.name in given:
                    source = "given"
                value = getattr(part, setting.name)
                rows.append((setting.name, in_table(value), _unit(hints[setting.name]), source))
        return rows


# All recipes by name, in the order of listings.
RECIPES: Registry[Recipe] = recipe_registry.RECIPES


def find(name: str) -> Recipe:
    """Returns the recipe of this name. UsageError, with a suggestion, for an unknown name and for an algorithm's."""
    if isinstance(name, str) and name not in RECIPES and name in ALGORITHMS:
        raise UsageError(
            f"'{name}' is an algorithm, and no recipe, which has a system and values of all settings too: take "
            f"--algorithm {name} with the recipe of a system (`veldt recipes --matrix` has all), or register one"
        )
    return RECIPES.find(name, or_else="; a plug-in's needs --plugin MODULE")


def derived_of(config: TrainConfig) -> list[tuple[str, str, str, str]]:
    """Returns (name, value, unit, origin) of derived values: what the settings mean for an optimisation phase."""
    return config.learn.derived(config.envs.num_envs, config.in_phases)


def _declared(settings: type[AlgorithmConfig], beside: type[AlgorithmConfig]) -> set[str]:
    """Returns the names that the class `settings`, or a base class that `beside` lacks, declares."""
    own = [cls for cls in settings.__mro__ if cls not in beside.__mro__]
    return set().union(*map(inspect.get_annotations, own))


def _family(algorithm: str) -> type[AlgorithmConfig]:
    """Returns the settings class that the algorithm's family shares; see `AlgorithmConfig.is_family`."""
    settings = ALGORITHMS[algorithm].settings
    bases = [cls for cls in settings.__mro__ if issubclass(cls, AlgorithmConfig)]
    decides = next(cls for cls in bases if "is_family" in cls.__dict__)
    return decides if decides.is_family else settings


def _unit(hint: Any) -> str:
    return next((extra.name for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Unit)), "")
