"""Groups runs for the charts: by env, and within an env, runs that differ only in their seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from veldt.report.data import RunData
from veldt.runs import strict_json

_IDENTITY = ("recipe", "algorithm", "system", "env")
# Settings that may differ between averaged runs: the seed, the early stop, and what is recorded.
_INCIDENTAL = {
    f"run.{key}"
    for key in (
        "seed",
        "until",
        "checkpoint_every",
        "keep_checkpoints",
        "checkpoint_replay",
        "log_every",
        "log",
        "log_norms",
        "log_saturation",
    )
}
_OF_ENVIRONMENT = {"env", "run.steps"}  # may differ between the envs that a method is tried on


@dataclass(frozen=True)
class Group:
    """Runs drawn in one colour: one run, or several that differ only in their seed.

    `method` is the same for groups on different envs that have the same recipe and the same given settings; `name` is
    the label without the number of runs.
    """

    label: str
    name: str
    method: str
    runs: list[RunData]


@dataclass(frozen=True)
class Environment:
    """The runs on one env. They have their own charts, because returns and steps of different envs do not compare.

    `prefix` keeps the ids of its charts distinct from those of other envs on the page.
    """

    name: str
    groups: list[Group]
    prefix: str

    @property
    def runs(self) -> list[RunData]:
        """All runs of all groups."""
        return [run for group in self.groups for run in group.runs]


def by_environment(runs: list[RunData]) -> list[Environment]:
    """Groups `runs` by env, in order of first appearance."""
    members: dict[str, list[RunData]] = {}
    for run in runs:
        members.setdefault(run.setting("env"), []).append(run)
    return [
        Environment(name, grouped(own), f"environment-{number}-")
        for number, (name, own) in enumerate(members.items())
    ]


def grouped(runs: list[RunData]) -> list[Group]:
    """Groups `runs` by recipe, algorithm, system, env and given settings.

    Runs of the same seed stay separate: their automatically chosen settings may differ.
    """
    recipes: dict[tuple[str, ...], list[RunData]] = {}
    for run in runs:
        recipes.setdefault(tuple(run.setting(key) for key in _IDENTITY), []).append(run)
    groups = []
    for key, members in recipes.items():
        # A group's label is what distinguishes it from the others.
        differing = [part for i, part in enumerate(key) if len({other[i] for other in recipes}) > 1 and part]
        # A recipe often has its algorithm's name.
        label = " · ".join(dict.fromkeys(differing)) or " on ".join(
            part for part in (key[0] or key[1], key[3]) if part
        )
        variants: dict[str, list[RunData]] = {}
        for run in members:
            variants.setdefault(_written(_given(run)), []).append(run)
        for own, added in zip(variants.values(), _added(variants.values()), strict=True):
            groups += _of_variant(own, label + added, bool(differing), len(variants) > 1)
    return groups


def _of_variant(runs: list[RunData], label: str, is_named: bool, has_others: bool) -> list[Group]:
    """The groups of runs with the same given settings; `is_named` is whether the label says more than the run's."""
    method = _method(runs[0])
    if len({run.setting("seed") for run in runs}) < len(runs):
        return [Group(run.name, run.name, method, [run]) for run in runs]
    if len(runs) > 1:
        return [Group(f"{label} ({len(runs)} seeds)", label, method, runs)]
    name = label if is_named and not has_others else runs[0].name
    return [Group(name, name, method, runs)]


def _added(variants: Iterable[list[RunData]]) -> list[str]:
    """What distinguishes each variant of a recipe from the others: the given settings that differ."""
    given = [_given(runs[0]) for runs in variants]
    keys = dict.fromkeys(key for one in given for key in one)
    differing = [key for key in keys if len({_written(one.get(key)) for one in given}) > 1]
    return [
        "".join(f" · {key.rpartition('.')[2]} {_shown(one[key])}" for key in differing if key in one)
        for one in given
    ]


def _given(run: RunData) -> dict[str, Any]:
    return {key: value for key, value in run.given().items() if key not in _INCIDENTAL}


def _method(run: RunData) -> str:
    given = {key: value for key, value in _given(run).items() if key not in _OF_ENVIRONMENT}
    return _written([*(run.setting(key) for key in _IDENTITY[:-1]), given])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    return strict_json.dumps(value, sort_keys=True)
