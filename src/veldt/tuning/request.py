"""What is asked of a search: what its trials train, with which settings, and over which space."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from veldt.config.run_request import RunRequest
from veldt.envs.arrangement import probe_spec
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.experiments.experiment import Training
from veldt.networks.own import NO_PARTS
from veldt.recipes import find
from veldt.recipes.configure import configure
from veldt.recipes.draft import Draft
from veldt.setting_text import flag
from veldt.systems.planning.checks import check_request
from veldt.systems.planning.sizes import check_sizes
from veldt.tuning.space import Space, check_space

_OTHER_SEEDS = 3  # of the runs that train with the best settings


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """A search. `settings` are those of all trials, by name; `space` has those that are searched."""

    recipe: str
    env: str
    algorithm: str | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Space

    @property
    def draft(self) -> Draft:
        return find(self.recipe).draft(self.env, self.algorithm)

    @cached_property
    def fixed(self) -> RunRequest:
        """A trial's run with the settings that all trials have."""
        return configure(
            self.recipe, self.env, self.env_kwargs, self.algorithm, NO_PARTS, dict(self.settings)
        )

    def check(self) -> None:
        """Raises UsageError where the trials would all be refused, or could not be compared."""
        if "until" in self.settings:
            raise UsageError(
                "--until would end the trials at the same score, and the search compares scores: leave it out"
            )
        if both := sorted(self.settings.keys() & self.space.keys()):
            raise UsageError(f"{flag(both[0])} is given, and --search {both[0]} too: leave one of them out")
        fixed = self.fixed
        check_space(self.draft, self.settings, self.space)
        searched = {name: dimension.examples[0] for name, dimension in self.space.items()}
        check_request(dataclasses.replace(fixed, given={**fixed.given, **searched}), None)

    @cached_property
    def spec(self) -> EnvSpec:
        """The spec of the environment."""
        return probe_spec(self.fixed.source, self.fixed.config.atari)

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Returns why a trial with these values would be refused; "" if it would not."""
        try:
            check_sizes(self.draft.build({**self.settings, **values}), self.spec)
        except UsageError as error:
            return str(error)
        return ""

    @property
    def seed(self) -> int:
        """The seed of the trials, and of the search."""
        return self.fixed.config.run.seed

    @property
    def asked(self) -> dict[str, Any]:
        """What must be the same when the search is continued, as JSON values: a default is as if it were given."""
        config = self.fixed.config
        return {
            "recipe": self.recipe,
            "env": self.env,
            "algorithm": config.algorithm,
            "env_kwargs": {name: repr(value) for name, value in self.env_kwargs.items()},
            "settings": {
                field.name: getattr(section, field.name)
                for section in config.sections.values()
                for field in dataclasses.fields(section)
            },
            "search": {name: str(dimension) for name, dimension in self.space.items()},
        }

    def training(self, name: str, values: Mapping[str, Any]) -> Training:
        """Returns the run with values for what is searched."""
        where: dict[str, Any] = {}
        if self.fixed.config.plugins:
            where["plugin"] = ",".join(self.fixed.config.plugins)
        if self.algorithm is not None:
            where["algorithm"] = self.algorithm
        if self.env_kwargs:
            where["env_kwargs"] = dict(self.env_kwargs)
        settings = {**where, **self.settings, **values}
        settings.pop("seed", None)
        return Training(
            group=name, recipe=self.recipe, env=self.env, seed=self.seed, settings=settings, panel="trial"
        )

    def command_with_seeds(self, values: Mapping[str, Any]) -> str:
        """Returns the command that trains with these values and other seeds than the search has had."""
        training = self.training("", values)
        seeds = " ".join(str(self.seed + number) for number in range(1, _OTHER_SEEDS + 1))
        command = shlex.join(["veldt", *training.words, *training.flags])
        return f"for seed in {seeds}; do {command} --seed $seed; done"


def name_in_messages(name: str) -> str:
    """Returns how messages call a value of `TuneRequest.asked`."""
    section, _, inner = name.partition(".")
    if section == "search":
        return f"--search {inner}"
    return flag(inner) if section == "settings" else "the recipe" if section == "recipe" else flag(section)
