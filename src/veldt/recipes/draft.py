"""A recipe's settings before they are checked, so that what the user gives can take their place first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veldt.config.train_config import SECTIONS, TrainConfig

NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Draft:
    """The settings of a run that nobody has checked yet.

    Args:
        recipe, algorithm, system, env: as in `TrainConfig`.
        classes: the settings class of each section that the run has.
        values: values that differ from the classes' defaults, by the setting's name.
    """

    recipe: str
    algorithm: str
    system: str
    env: str
    classes: Mapping[str, type[Any]]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, config: TrainConfig) -> Draft:
        """Returns the draft that has the settings of `config`, without values."""
        classes = {name: type(part) for name in SECTIONS if (part := getattr(config, name)) is not None}
        return cls(config.recipe, config.algorithm, config.system, config.env, classes, {})

    def section_of(self, name: str) -> str | None:
        """Returns the section that has the setting of this name; None if there is no such setting."""
        return next((section for section, cls in self.classes.items() if name in names_of(cls)), None)

    @property
    def in_phases(self) -> bool:
        """Whether acting and learning alternate in the same process, unless a setting changes that."""
        in_phases: bool = self.classes["roles"]().in_phases
        return in_phases

    def build(
        self, given: Mapping[str, Any] = NOTHING, env_kwargs: Mapping[str, Any] = NOTHING
    ) -> TrainConfig:
        """Returns the configuration, each section made once, with the values of `given` instead of the draft's.

        Args:
            given: settings by name; all are settings of this draft.

        Raises:
            UsageError: a value is not allowed, alone or beside the others.
        """
        values: dict[str, dict[str, Any]] = {section: {} for section in self.classes}
        for name, value in {**self.values, **given}.items():
            section = self.section_of(name)
            assert section is not None, f"the setting {name} belongs to no section"
            values[section][name] = value
        built: dict[str, Any] = {}
        for section, cls in self.classes.items():
            built[section] = cls(**values[section])
        return TrainConfig(
            recipe=self.recipe,
            algorithm=self.algorithm,
            system=self.system,
            env=self.env,
            env_kwargs=dict(env_kwargs),
            **built,
        )


def names_of(cls: type[Any]) -> set[str]:
    """Returns the names of the settings of a settings class."""
    return {field.name for field in dataclasses.fields(cls)}
