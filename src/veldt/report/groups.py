"""What belongs into one picture: the runs of one environment; and into one curve: those that differ by their seed."""

from __future__ import annotations

from dataclasses import dataclass

from veldt.report.data import RunData
from veldt.runs import strict_json

_IDENTITY = ("recipe", "algorithm", "system", "env")
# Settings that may differ within an average: the seed, where it stops early, and how it is recorded.
_INCIDENTAL = {f"run.{key}" for key in ("seed", "until", "checkpoint_every", "keep_checkpoints", "log_every")}


@dataclass(frozen=True)
class Group:
    """Runs that are drawn in one colour: one run, or several that differ by nothing but their seed."""

    label: str
    runs: list[RunData]


@dataclass(frozen=True)
class Environment:
    """The runs on one environment. Its charts are its own: scores and steps of different games do not compare.

    `prefix` keeps the ids of its charts apart from those of other environments on the page.
    """

    name: str
    groups: list[Group]
    prefix: str

    @property
    def runs(self) -> list[RunData]:
        """All its runs."""
        return [run for group in self.groups for run in group.runs]


def by_environment(runs: list[RunData]) -> list[Environment]:
    """`runs` by environment, in the order in which environments first appear."""
    members: dict[str, list[RunData]] = {}
    for run in runs:
        members.setdefault(run.setting("env"), []).append(run)
    return [
        Environment(name, grouped(own), f"environment-{number}-")
        for number, (name, own) in enumerate(members.items())
    ]


def grouped(runs: list[RunData]) -> list[Group]:
    """`runs` by recipe, algorithm, system and environment; apart where more than the seed was changed."""
    groups: dict[tuple[str, ...], list[RunData]] = {}
    for run in runs:
        groups.setdefault(tuple(run.setting(key) for key in _IDENTITY), []).append(run)
    named = []
    for key, members in groups.items():
        # What differs between the groups is their name.
        differing = [part for i, part in enumerate(key) if len({other[i] for other in groups}) > 1 and part]
        label = " · ".join(differing) or " on ".join(part for part in (key[0] or key[1], key[3]) if part)
        if len({run.setting("seed") for run in members}) < len(members) or not _alike(members):
            # An average would mix different things.
            named += [Group(run.name, [run]) for run in members]
        elif len(members) > 1:
            named.append(Group(f"{label} ({len(members)} seeds)", members))
        else:
            named.append(Group(label if differing else members[0].name, members))
    return named


def _alike(runs: list[RunData]) -> bool:
    """Whether the same was asked for; what was left to be chosen may have been chosen differently."""
    asked = [{key: value for key, value in run.given().items() if key not in _INCIDENTAL} for run in runs]
    return len({strict_json.dumps(one, sort_keys=True) for one in asked}) == 1
