"""The recipes with discrete actions on MinAtar's games, beside Young & Tian's agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.algorithms.capabilities import REPLAY
from veldt.config.recipe_registry import RECIPES
from veldt.errors import UsageError, did_you_mean
from veldt.experiments.catalogue.common import ALONE, REPLAY_NOT_KEPT, cores_of, scores_table, seeded
from veldt.experiments.catalogue.verdicts import Estimate, at_least, comparison, over_games
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves, number
from veldt.experiments.results import Results, interval
from veldt.formatting import counted
from veldt.report import statistics
from veldt.report.normalising import game_key

_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_MODULE = "veldt.experiments.minatar_games"
_STEPS = {"small": 500_000, "paper": 1_000_000}
# Mean returns in training of Young & Tian 2019 (figure 2, digitised, +-2%), after 500,000 and 1 M steps: DQN, AC(0.8).
_PUBLISHED: dict[str, dict[int, tuple[float | None, float | None]]] = {
    "asterix": {500_000: (1.0, 0.7), 1_000_000: (6.9, 0.8)},
    "breakout": {500_000: (8.3, 6.9), 1_000_000: (9.2, 9.9)},
    "freeway": {500_000: (33.5, None), 1_000_000: (47.8, None)},
    "seaquest": {500_000: (0.9, 0.8), 1_000_000: (1.0, 0.6)},
    "space_invaders": {500_000: (27.9, 26.8), 1_000_000: (32.8, 51.4)},
}
# The network and replay of the published DQN, with larger batches, each step used 8 times.
_Q: dict[str, Any] = {
    "network": "small",
    "batch_size": 128,
    "training_intensity": 8.0,
    "learning_rate": 5e-4,
    "gamma": 0.99,
    "n_step": 3,
    "buffer_size": 100_000,
    "learning_starts": 5_000,
    **REPLAY_NOT_KEPT,
}
_ANNEALED: dict[str, Any] = {"epsilon_steps": 100_000}
_ATOMS: dict[str, Any] = {"value_min": -1.0, "value_max": 30.0}
_ROLLOUTS: dict[str, Any] = {"network": "small", "gamma": 0.99, "ent_coef": 0.01}
# Inside the root of RMSProp, ε dominates the squared gradients of these games.
_RMSPROP: dict[str, Any] = {**_ROLLOUTS, "rmsprop_epsilon_inside": False}
_RECIPES: dict[str, dict[str, Any]] = {
    "a2c": _RMSPROP,
    "ppo": {**_ROLLOUTS, "epochs": 6, "learning_rate": 2e-3},
    "a3c": {**_RMSPROP, "learners": 2, "num_envs": 16},
    "appo": {**_ROLLOUTS, "learners": 2, "num_envs": 16},
    "ga3c": _RMSPROP,
    "impala": {**_RMSPROP, "actors": 2, "num_envs": 16},
    "dqn": {**_Q, **_ANNEALED},
    "c51": {**_Q, **_ANNEALED, **_ATOMS},
    "rainbow": {**_Q, **_ANNEALED, **_ATOMS},
    # An evaluator needs less of a core where no target return waits for it.
    "apex-dqn": {**_Q, "actors": 2, "num_envs": 16, "evaluator_share": 0.1},
    "async-dqn": {**_Q, **_ANNEALED, "learners": 2, "num_envs": 16},
    "gorila": {**_Q, **_ANNEALED, "learners": 2, "num_envs": 16, "evaluator_share": 0.1},
}
_DQN, _ACTOR_CRITIC = "published DQN", "published actor-critic"


def _game_of(name: str) -> str:
    """Returns the game of MinAtar that a user names, in any spelling; UsageError if there is none."""
    games = {game_key(game): game for game in _GAMES}
    key = game_key(name.removeprefix(f"{_MODULE}:"))
    if key not in games:
        raise UsageError(
            f"--games has '{name}', which is not a game of MinAtar{did_you_mean(name, _GAMES)}: known are "
            f"{', '.join(_GAMES)}"
        )
    return games[key]


def _games(request: Request) -> tuple[str, ...]:
    return request.games or _GAMES


def _jobs(request: Request) -> list[Training]:
    return [
        job
        for game in _games(request)
        for recipe in request.recipes or _RECIPES
        for job in seeded(
            request,
            group=recipe,
            recipe=recipe,
            env=f"{_MODULE}:{game}",
            settings={**ALONE, **_RECIPES.get(recipe, {}), "steps": _STEPS[request.scale]},
            panel=game,
            cores=_cores(recipe),
        )
    ]


def _cores(recipe: str) -> int:
    """Returns how many cores a run keeps busy: two where the settings above ask for two processes."""
    cores = cores_of(recipe)
    return 2 if cores == 0 and recipe in _RECIPES else cores


def _peer_of(recipe: str) -> str:
    """Returns the published agent of the same kind as a recipe's."""
    from veldt.algorithms.registry import ALGORITHMS  # it imports torch

    return _DQN if REPLAY in ALGORITHMS[RECIPES[recipe].algorithm].capabilities else _ACTOR_CRITIC


def _published(game: str, steps: int) -> dict[str, float]:
    """Returns the published scores of a game after as many steps, by the name of the agent."""
    scores = zip((_DQN, _ACTOR_CRITIC), _PUBLISHED.get(game, {}).get(steps, (None, None)), strict=True)
    return {agent: score for agent, score in scores if score is not None}


def _draw(results: Results) -> Exhibit:
    steps = _STEPS[results.request.scale]
    rows: list[tuple[str, ...]] = []
    shares: dict[str, dict[str, list[float]]] = {}  # of the published score, by recipe and game, of each seed
    for game, recipe, runs in results.groups():
        published = _published(game, steps).get(_peer_of(recipe))
        known = [run.score for run in runs if np.isfinite(run.score)]
        row = (game, recipe, str(len(known)), number(*interval(known)))
        if published is None:
            rows.append((*row, "–", "–"))
            continue
        if known:
            shares.setdefault(recipe, {})[game] = [score / published for score in known]
        rows.append((*row, f"{published:g}", number(*interval([score / published for score in known]))))
    aggregates = {recipe: (len(games), _aggregate(games)) for recipe, games in shares.items()}
    found = "; ".join(
        f"{recipe} {share} ({counted(games, 'game', 'games')})"
        for recipe, (games, share) in aggregates.items()
    )
    says = comparison(
        f"Interquartile means of the scores over the published ones of the same kind of agent at equal steps: {found}"
        if found
        else "",
        "Young & Tian publish scores of a DQN and an actor-critic (here: nine tenths of them are reached)",
        {recipe: at_least(share, 0.9) for recipe, (_, share) in aggregates.items()},
    )
    header = ("game", "recipe", "seeds", "score", "published", "score over published")
    caption = f"Mean return of the last tenth of {steps:,} steps; published: Young & Tian's DQN, or AC(0.8)."
    by_recipe = [(recipe, f"{games}", f"{share}") for recipe, (games, share) in aggregates.items()]
    tables = [
        Table(
            "IQM over games",
            ("recipe", "games with a published score", "IQM of score over published"),
            by_recipe,
            "With the 95% bootstrap interval over seeds, stratified by game and made wider for few seeds.",
        ),
        Table("MinAtar", header, rows, caption),
        scores_table(results),
    ]
    lines = {game: _published(game, steps) for game in results.charts()}
    return Exhibit(says, [learning_curves(results, references=lines)], tables)


def _aggregate(games: Mapping[str, Sequence[float]]) -> Estimate:
    """Returns the IQM of all games' values, of as many seeds as all games have."""
    seeds = min(map(len, games.values()))
    array = np.array([values[:seeds] for values in games.values()]).T  # [seeds, games]
    return over_games(statistics.interquartile_mean, array)


MINATAR = Experiment(
    name="minatar",
    source="Young & Tian 2019 (MinAtar)",
    shows="All recipes with discrete actions on five small games, beside the published DQN and actor-critic.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        f"{_STEPS[request.scale]:,} steps instead of 5 M.",
        "Scores are the means of episodes in the last tenth of the steps; the published ones moving averages.",
        "Batches of 128 and a step size for them, where the published DQN has batches of 32 and an update each step.",
    ],
    seeds=(3, 5),
    hours=5.8,
    env_of=_game_of,
    compares_recipes=True,
    needs={"minatar": "pip install --no-deps minatar"},
)
