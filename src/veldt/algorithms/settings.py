"""The base class of all algorithms' settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from veldt.algorithms.schedule_settings import changing_schedules, check_schedules
from veldt.setting_metadata import check_values


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """Settings of an algorithm: a frozen, keyword-only dataclass. Each field becomes a flag.

    A field has a default, a unit (`Annotated[int, Unit("steps")]`), and a docstring below it, which is the flag's help.
    A `Range` beside the unit is checked, also in schedules: settings of type `float | str` (`schedule_settings.py`).
    A class with `is_family = True` is the base of variants that learn well by each other's settings: a variant in the
    recipe of another one keeps that recipe's settings, except those that its own class adds, or gives another default.
    A subclass with `is_family = False` is no such variant.
    """

    is_family: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_values(self)
        check_schedules(self)

    def unread(self) -> dict[str, str]:
        """Returns the settings that have no effect beside these values, and why."""
        return {}

    def annealed_settings(self) -> list[str]:
        """Returns the settings whose effect changes over the run's steps, so that it depends on their number."""
        unread = self.unread()
        return [name for name in changing_schedules(self) if name not in unread]

    def derived(self, num_envs: int, in_phases: bool) -> list[tuple[str, str, str, str]]:
        """Returns derived values for `veldt recipes`: name, value, unit, and the settings that they come from.

        Args:
            in_phases: whether acting and learning alternate.
        """
        return []

    def warn_about(self, metrics: Mapping[str, float]) -> str | None:
        """Returns a sentence if a row of the run's metrics shows that a setting does not fit the env, with what to do.

        It is called for each row, until it returns a sentence: this is shown to the user once.

        Args:
            metrics: those of one row that were measured, by their names in `tracking/metric_names.py`.
        """
        return None
