"""Human-normalised scores of Atari games: 0 is a random policy's score, 1 a human's.

`reference/atari_scores.csv` has the published scores, each with its source. They differ with how an episode starts, and
between papers:

    no-op       after up to 30 no-ops, 57 games: what most papers use since 2016
    no-op-2015  the same starts, but the human scores of the DQN paper of 2015, 49 games
    human       from points in a human's games, 57 games
"""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass
from importlib import resources

from veldt.errors import UsageError, did_you_mean

STARTS = ("no-op", "no-op-2015", "human")

# Published means and medians over all games follow from the tables only if Video Pinball's random score is taken as 0.
# The published one is nearly the human score (above it with human starts), so that nothing could be divided by.
_RANDOM_IN_USE = {"videopinball": 0.0}


@dataclass(frozen=True)
class ReferenceScores:
    """Published scores of one game: of a random policy and of a human, and where they are from."""

    game: str
    random: float
    human: float
    source: str


def human_normalised(score: float, game: str, starts: str = "no-op") -> float:
    """Returns `(score - random) / (human - random)` with the published scores of the game.

    Args:
        score: the raw return of a whole game.
        game: its name as Gymnasium's or a paper's: ALE/BankHeist-v5, BankHeistNoFrameskip-v4, bank_heist.
        starts: how the episodes start: "no-op", "no-op-2015" or "human" (see the module's docstring).

    Raises:
        UsageError: no scores of the game are published for these starts.
    """
    lowest, human = _ends(game, starts)
    return (score - lowest) / (human - lowest)


def raw_score(normalised: float, game: str, starts: str = "no-op") -> float:
    """Returns the raw return that has a human-normalised score: the inverse of `human_normalised`."""
    lowest, human = _ends(game, starts)
    return lowest + normalised * (human - lowest)


def _ends(game: str, starts: str) -> tuple[float, float]:
    """The raw returns that count as 0 and as 1."""
    known = _table(starts)
    key = game_key(game)
    if key not in known:
        hint = did_you_mean(game, [one.game for one in known.values()])
        raise UsageError(
            f"'{game}' has no published human score for {starts} starts{hint}: scores can be normalised for "
            f"{len(known)} Atari games, with names like ALE/Breakout-v5"
        )
    return _RANDOM_IN_USE.get(key, known[key].random), known[key].human


def is_normalisable(game: str, starts: str = "no-op") -> bool:
    """Whether `human_normalised` has scores of the game."""
    return game_key(game) in _table(starts)


@functools.cache
def _table(starts: str) -> dict[str, ReferenceScores]:
    """The scores for these starts, by the key of the game."""
    if starts not in STARTS:
        raise UsageError(f"starts is '{starts}': it must be one of {', '.join(STARTS)}")
    return {
        game_key(row["game"]): ReferenceScores(
            row["game"], float(row["random"]), float(row["human"]), row["source"]
        )
        for row in reference_rows("atari_scores.csv")
        if row["starts"] == starts
    }


def reference_rows(name: str) -> list[dict[str, str]]:
    """Returns the rows of a shipped table of published scores, by the names of its columns."""
    text = (resources.files("veldt.report") / "reference" / name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def game_key(game: str) -> str:
    """Returns what all names of a game have in common: bankheist for ALE/BankHeist-v5, BankHeist and bank_heist."""
    name = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", game.removeprefix("ALE/"))
    return name.replace("_", "").lower()
