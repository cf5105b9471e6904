"""Published raw scores of agents on Atari games: `reference/atari_agents.csv` has them, each with its source.

DQN      no-op (Mnih et al. 2015) and human starts (Nair et al. 2015), 49 games, evaluated
Gorila   no-op and human starts (Nair et al. 2015), 49 games, evaluated
Rainbow  the mean return in training over emulator frames, with sticky actions, mean of five seeds (Dopamine)
"""

from __future__ import annotations

import functools

from veldt.report.normalising import game_key, reference_rows

_FRAMES = 4  # of the emulator in an agent step


def published_score(agent: str, game: str, starts: str = "no-op") -> float | None:
    """Returns the published score of an agent on a game, after all of its training; None if there is none."""
    return published_scores(agent, starts).get(game_key(game))


@functools.cache
def published_scores(agent: str, starts: str = "no-op") -> dict[str, float]:
    """Returns the published scores of an agent, by the key of the game."""
    return {
        game_key(row["game"]): float(row["score"])
        for row in _rows()
        if (row["agent"], row["starts"]) == (agent, starts)
    }


def published_curve(agent: str, game: str, steps: float) -> tuple[list[float], list[float]]:
    """Returns agent steps, up to `steps`, and the published mean returns in training; nothing if there are none."""
    points = [
        (int(row["frames"]) / _FRAMES, float(row["score"]))
        for row in _rows()
        if row["agent"] == agent and row["frames"] and game_key(row["game"]) == game_key(game)
    ]
    reached = sorted(point for point in points if point[0] <= steps)
    return [step for step, _ in reached], [score for _, score in reached]


@functools.cache
def _rows() -> list[dict[str, str]]:
    return reference_rows("atari_agents.csv")
