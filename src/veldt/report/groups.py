"""Groups runs for the charts: by env, and within an env, runs that differ only in their seed."""

from __future__ import annotations

from dataclasses import dataclass

from veldt.report.data import RunData
from veldt.runs import strict_json

_IDENTITY = ("recipe", "algorithm", "system", "env")
# Settings that may differ between averaged runs: the seed, the early stop, and what is recorded.
_INCIDENTAL = {f"run.{key}" for key in ("seed", "until", "checkpoint_every", "keep_checkpoints", "log_every")}


@dataclass(frozen=True)
class Group:
    """Runs drawn in one colour: one run, or several that differ only in their seed."""

    label: str
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
    """Groups `runs` by recipe, algorithm, system and env; runs that differ in more than the seed stay separate."""
    groups: dict[tuple[str, ...], list[RunData]] = {}
    for run in runs:
        groups.setdefault(tuple(run.setting(key) for key in _IDENTITY), []).append(run)
    named = []
    for key, members in groups.items():
        # A group's label is what distinguishes it from the others.
        differing = [part for i, part in enumerate(key) if len({other[i] for other in groups}) > 1 and part]
        label = " · ".join(differing) or " on ".join(part for part in (key[0] or key[1], key[3]) if part)
        if len({run.setting("seed") for run in members}) < len(members) or not _same_settings(members):
            # Averaging them would mix different settings.
            named += [Group(run.name, [run]) for run in members]
        elif len(members) > 1:
            named.append(Group(f"{label} ({len(members)} seeds)", members))
        else:
            named.append(Group(label if differing else members[0].name, members))
    return named


def _same_settings(runs: list[RunData]) -> bool:
    """Whether the user gave the same settings; automatically chosen settings may differ."""
    given = [{key: value for key, value in run.given().items() if key not in _INCIDENTAL} for run in runs]
    return len({strict_json.dumps(one, sort_keys=True) for one in given}) == 1
