"""Finished episodes as messages, from the role that played them to the run's records."""

from __future__ import annotations

import numpy as np

from veldt.envs.seeding import episode_seed
from veldt.runtime.roles import Control
from veldt.runtime.supervision import RoleMessage
from veldt.sampling.episodes import Episode


def send_episodes(control: Control, games: list[Episode], run_seed: int, first: int) -> None:
    """Sends episodes of a role whose envs start at index `first` of the run and were seeded from `run_seed`."""
    control.send(
        "games",
        {"actions": np.concatenate([game.actions for game in games])},
        games=[
            {
                "env": first + game.env_index,
                "episode": game.episode,
                "seed": episode_seed(run_seed, game.env_index, game.episode),
                "prefix": game.prefix,
                "score": game.episode_return,
                "length": game.length,
            }
            for game in games
        ],
    )


def episodes_of_message(message: RoleMessage) -> list[tuple[Episode, int]]:
    """Returns the episodes of such a message, each with its seed."""
    games, end = [], 0
    for values in message.values["games"]:
        begin, end = end, end + values["length"]
        actions = message.arrays["actions"][begin:end]
        game = Episode(values["env"], values["episode"], values["prefix"], values["score"], actions)
        games.append((game, values["seed"]))
    return games
