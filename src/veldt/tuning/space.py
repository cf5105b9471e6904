"""The space of a search: for each setting the values that it may take, by default those that are usually searched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veldt.errors import UsageError
from veldt.recipes.draft import Draft
from veldt.setting_text import in_search

_DIGITS = 5  # of a number that is drawn: enough to search with, and few enough to type


@dataclass(frozen=True)
class Interval:
    """The numbers from `low` to `high`: all, or with a `step` those that are multiples of it above `low`.

    `logarithmic` ones are drawn with equal shares for equal factors.
    """

    low: float
    high: float
    logarithmic: bool
    whole: bool
    step: float = 0

    def __str__(self) -> str:
        step = f":{in_search(self.step)}" if self.step else ""
        return (
            f"{'log' if self.logarithmic else 'uniform'}:{in_search(self.low)}:{in_search(self.high)}{step}"
        )

    def value(self, drawn: float) -> Any:
        """Returns a drawn number as the value of a setting."""
        if self.whole:
            return int(drawn)
        return min(max(float(f"{drawn:.{_DIGITS}g}"), self.low), self.high)

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that must be allowed if all are."""
        return self.value(self.low), self.value(self.high)

    @property
    def size(self) -> int | None:
        """How many numbers these are; None if there is no end of them."""
        step = self.step or (1 if self.whole else 0)
        return round((self.high - self.low) / step) + 1 if step else None

    @property
    def drawable(self) -> Sequence[Any]:
        """All that may be drawn, where it has an end."""
        return [self.low + number * (self.step or 1) for number in range(self.size or 0)]


@dataclass(frozen=True)
class Choices:
    """Single values, each by the text that the study keeps."""

    values: Mapping[str, Any]

    def __str__(self) -> str:
        return ",".join(self.values)

    def value(self, drawn: str) -> Any:
        """Returns a drawn text as the value of a setting."""
        return self.values[drawn]

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that must be allowed if all are."""
        return tuple(self.values.values())

    @property
    def size(self) -> int | None:
        """How many values these are."""
        return len(self.values)

    @property
    def drawable(self) -> Sequence[Any]:
        """All that may be drawn."""
        return list(self.values)


Dimension = Interval | Choices
Space = Mapping[str, Dimension]


def combinations(space: Space) -> int | None:
    """Returns how many combinations of values a space has; None if there is no end of them."""
    sizes = [dimension.size for dimension in space.values()]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def values_of(space: Space, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what was drawn from a space as values of the settings."""
    return {name: space[name].value(one) for name, one in drawn.items() if name in space}


def choices(*values: Any) -> Choices:
    """Returns the choice between values, each with the text that a flag has."""
    return Choices({in_search(value): value for value in values})


def _factors(*factors: float) -> Callable[[Any], Dimension]:
    """Returns what makes the choice between multiples of the recipe's own value."""
    return lambda value: choices(*(type(value)(value * factor) for factor in factors))


def _always(dimension: Dimension) -> Callable[[Any], Dimension]:
    return lambda value: dimension


_LEARNING_RATE = _always(Interval(1e-5, 1e-2, True, False))

# Settings that RL Zoo searches, too, where a recipe has them: what makes each one's values from the recipe's own.
_USUAL: Mapping[str, Callable[[Any], Dimension]] = {
    "learning_rate": _LEARNING_RATE,
    "actor_learning_rate": _LEARNING_RATE,
    "gamma": _always(choices(0.9, 0.95, 0.98, 0.99, 0.995, 0.999)),
    "gae_lambda": _always(choices(0.8, 0.9, 0.95, 0.98, 1.0)),
    "ent_coef": _always(Interval(1e-8, 0.1, True, False)),
    "clip": _always(choices(0.1, 0.2, 0.3)),
    "batch_size": _factors(0.5, 1, 2, 4),
    "horizon": _factors(0.5, 1, 2, 4),
    "epochs": _always(choices(3, 5, 10, 20)),
    "n_step": _always(choices(1, 3, 5)),
    "training_intensity": _factors(0.5, 1, 2),
    "target_update_interval": _factors(0.25, 1, 4),
    "exploration_noise": _always(choices(0.05, 0.1, 0.2, 0.3)),
}


def default_space(draft: Draft, given: Mapping[str, Any]) -> dict[str, Dimension]:
    """Returns the usual space of a recipe, without the settings that are given and those that have no effect."""
    config = draft.build(given)
    unread = {**config.learn.unread(), **config.roles.unread()}
    space = {}
    for name, make in _USUAL.items():
        if draft.section_of(name) is None or name in given or name in unread:
            continue
        dimension = _allowed(draft, given, name, make(config.value_of(name)))
        if len(set(dimension.examples)) > 1:
            space[name] = dimension
    return space


def check_space(draft: Draft, given: Mapping[str, Any], space: Space) -> None:
    """Raises UsageError where a value of the space is not allowed beside the given settings."""
    for name, dimension in space.items():
        for value in dimension.examples:
            try:
                draft.build({**given, name: value})
            except UsageError as error:
                raise UsageError(f"--search {name}={dimension}: {error}") from None


def _allowed(draft: Draft, given: Mapping[str, Any], name: str, dimension: Dimension) -> Dimension:
    """Returns a dimension with those of its choices that are allowed beside the given settings."""
    if isinstance(dimension, Interval):
        return dimension
    allowed = {text: value for text, value in dimension.values.items() if _fits(draft, given, name, value)}
    return Choices(allowed)


def _fits(draft: Draft, given: Mapping[str, Any], name: str, value: Any) -> bool:
    try:
        draft.build({**given, name: value})
    except UsageError:
        return False
    return True
