"""Stooke & Abbeel, table 1 and figures 9 to 11: scores on Atari games."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from veldt.experiments.catalogue.common import ALONE, ATARI, STOOKE, cores_of, scores_table, seeded
from veldt.experiments.catalogue.verdicts import NOTHING_YET, Verdict, at_least, comparison, over_games
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves, number
from veldt.experiments.planning.games import env_of_atari_game
from veldt.experiments.results import Results
from veldt.formatting import counted, duration
from veldt.report import statistics
from veldt.report.normalising import human_normalised, is_normalisable, raw_score

# Configuration: the paper recipe ("" for two that the paper quotes), and the average and median human-normalised scores
# of 49 games in table 1.
_ROWS = {
    "A2C 16-env": ("a2c-16", "2.5 · 0.65"),
    "A2C 128-env": ("a2c-128", "8.0 · 0.48"),
    "A3C 3×16-env": ("a3c-3x16", "5.4 · 0.53"),
    "PPO 8-env": ("ppo-8x256", "2.8 · 1.2"),
    "PPO 128-env": ("ppo-128x16", "9.8 · 0.97"),
    "APPO 8×8-env": ("appo-8", "8.8 · 1.2"),
    "DQN-32 (van Hasselt et al. 2016)": ("", "2.4 · 0.96"),
    "DQN-512": ("dqn-512", "9.8 · 1.4"),
    "CatDQN-32 (Bellemare et al. 2017)": ("", "25.5 · 2.1"),
    "CatDQN-2048": ("c51-2048", "22.1 · 2.9"),
    "ε-Rainbow-512": ("rainbow-512", "22.4 · 2.5"),
}
# The scaled configurations, with the one that each is to match; those of Q-learning are compared to others' papers.
_SCALED = {
    "A2C 128-env": "A2C 16-env",
    "A3C 3×16-env": "A2C 16-env",
    "PPO 128-env": "PPO 8-env",
    "APPO 8×8-env": "PPO 8-env",
}
# Mean returns in training of Dopamine's Rainbow (Castro et al. 2018, their published data) after 2 M frames, with
# sticky actions, by five seeds.
_RAINBOW = {
    "ALE/BeamRider-v5": 371.0,
    "ALE/Breakout-v5": 4.5,
    "ALE/Pong-v5": -20.6,
    "ALE/Qbert-v5": 450.6,
    "ALE/Seaquest-v5": 181.2,
    "ALE/SpaceInvaders-v5": 234.2,
}
_GOALS = (0.1, 0.5, 1.0)  # human-normalised scores whose time is shown
_LEARNERS = {"a3c-3x16": 3, "appo-8": 8}
_SMALL = ("A2C 16-env", "A2C 128-env")  # one that is scaled, and what it is to match
_SMALL_STEPS = 500_000  # 2 M frames
_GAMES = (
    "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Bowling Boxing Breakout Centipede "
    "ChopperCommand CrazyClimber DemonAttack DoubleDunk Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero "
    "IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman NameThisGame Pong PrivateEye Qbert "
    "Riverraid RoadRunner Robotank Seaquest SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture "
    "VideoPinball WizardOfWor Zaxxon"
)


def _jobs(request: Request) -> list[Training]:
    games = ("Pong", "Breakout") if request.is_small else tuple(_GAMES.split())
    settings = {**ALONE, **({"steps": _SMALL_STEPS} if request.is_small else {})}
    jobs = []
    for env in request.envs(*(f"ALE/{game}-v5" for game in games)):
        for label, recipe in _configurations(request).items():
            cores = cores_of(recipe) if request.recipes else _LEARNERS.get(recipe, 1)
            jobs += seeded(request, group=label, recipe=recipe, env=env, settings=settings, cores=cores)
    return jobs


def _configurations(request: Request) -> dict[str, str]:
    """Returns the recipe of each configuration that is trained."""
    if request.recipes:
        return {recipe: recipe for recipe in request.recipes}
    labels = _SMALL if request.is_small else tuple(_ROWS)
    return {label: _ROWS[label][0] for label in labels if _ROWS[label][0]}


Scores = dict[str, dict[str, list[float]]]  # human-normalised, by configuration and game, of each seed


def _known_scores(results: Results) -> tuple[Scores, list[str]]:
    """Returns the scores that can be normalised, and the environments for which no human's is known."""
    scores: Scores = {}
    left_out: list[str] = []
    for chart, group, runs in results.groups():
        if not is_normalisable(chart):
            left_out.append(chart)
        elif known := [human_normalised(run.score, chart) for run in runs if np.isfinite(run.score)]:
            scores.setdefault(group, {})[chart] = known
    return scores, list(dict.fromkeys(left_out))


def _array(games: Mapping[str, Sequence[float]], names: Collection[str]) -> np.ndarray:
    """Returns the scores of the games `names` as [seeds, games], of as many seeds as all of them have."""
    seeds = min(len(games[name]) for name in names)
    return np.array([games[name][:seeds] for name in names]).T


def _normalised(request: Request, scores: Scores, left_out: Sequence[str]) -> Table:
    """Returns aggregates of the human-normalised scores beside the paper's, by the configurations of its table 1.

    Where the user has named recipes, there is a row for each of these instead.
    """
    rows = []
    for group in request.recipes or _ROWS:
        published = "–" if request.recipes else _ROWS[group][1]
        games = scores.get(group)
        if not games:
            rows.append((group, "0", "0", "–", "–", "–", published))
            continue
        array = _array(games, games)
        average, middle = number(float(statistics.mean(array))), number(float(statistics.median(array)))
        iqm = f"{over_games(statistics.interquartile_mean, array)}"
        rows.append((group, str(len(games)), str(len(array)), average, middle, iqm, published))
    header = (
        "configuration",
        "games here",
        "seeds",
        "average",
        "median",
        "IQM",
        "the paper's average · median, 49 games",
    )
    caption = (
        "0 is a random player, 1 a human; null-op starts. The interval of the IQM is the bootstrap's over seeds, "
        "stratified by game and made wider for few seeds."
    )
    if left_out:
        caption += f" Without a published human score, and left out: {', '.join(left_out)}."
    return Table("Human-normalised scores", header, rows, caption)


def _times(results: Results) -> Table:
    """Returns when the mean return of 100 episodes first was at some human-normalised scores."""
    rows = []
    for chart, group, runs in results.groups():
        for share in _GOALS if is_normalisable(chart) else ():
            score = raw_score(share, chart)
            steps = [run.steps_to(score) for run in runs]
            reached = [(run, step) for run, step in zip(runs, steps, strict=True) if np.isfinite(step)]
            mean_step = number(float(np.mean([step for _, step in reached]))) if reached else "–"
            seconds = [float(run.seconds_at(step)) for run, step in reached]
            time = duration(float(np.mean(seconds))) if reached else "–"
            rows.append(
                (
                    chart,
                    group,
                    f"{share:.0%}",
                    number(score),
                    f"{len(reached)} of {len(runs)}",
                    mean_step,
                    time,
                )
            )
    header = ("game", "configuration", "of a human", "mean return", "seeds that reach it", "steps", "time")
    caption = "The mean return is that of the last 100 episodes; steps and time are means of the seeds that reach it."
    return Table("Time to a score", header, rows, caption)


def _matches(scores: Scores) -> dict[str, Verdict]:
    """Returns whether scaled configurations keep nine tenths of the IQM of unscaled ones, over the games of both."""
    verdicts = {}
    for scaled, unscaled in _SCALED.items():
        names = sorted(scores.get(scaled, {}).keys() & scores.get(unscaled, {}).keys())
        if not names:
            continue
        both = (_array(scores[scaled], names), _array(scores[unscaled], names))
        times = 0.9 if statistics.interquartile_mean(both[1]) >= 0.0 else 1.1

        def kept(of: np.ndarray, others: np.ndarray, *, times: float = times) -> float:
            return float(statistics.interquartile_mean(of)) - times * float(
                statistics.interquartile_mean(others)
            )

        verdicts[f"{scaled} against {unscaled}"] = at_least(over_games(kept, *both), 0.0)
    return verdicts


def _draw(results: Results) -> Exhibit:
    scores, left_out = _known_scores(results)
    request = results.request
    tables = [_normalised(request, scores, left_out), _times(results), scores_table(results)]
    curves = learning_curves(results, references=_published(results) if request.is_small else {})
    return Exhibit(_says(request, scores), [curves], tables)


def _says(request: Request, scores: Scores) -> str:
    averages = "; ".join(
        f"{group} {number(float(statistics.mean(_array(games, games))))} ({counted(len(games), 'game', 'games')})"
        for group, games in scores.items()
    )
    here = f"Average human-normalised scores of training: {averages}" if averages else ""
    if request.recipes:  # of which the paper says nothing
        return f"{here or NOTHING_YET}."
    verdicts = _matches(scores)
    if scores and not verdicts:
        verdicts = {"": Verdict(None, "no scaled configuration is trained beside its unscaled one")}
    return comparison(
        here,
        "The paper finds that scaled configurations (more simulators, larger batches) tend to match the unscaled ones "
        "over 49 games, after 25 M (policy gradients) or 50 M steps (here: nine tenths of the interquartile mean are "
        "kept)",
        verdicts,
    )


def _published(results: Results) -> dict[str, dict[str, float]]:
    """Returns the published score of each game after as many steps as at a small scale."""
    return {game: {"Dopamine's Rainbow": _RAINBOW[game]} for game in results.charts() if game in _RAINBOW}


def _differs(request: Request) -> list[str]:
    sentences = []
    if request.recipes:
        sentences.append(f"The recipes {', '.join(request.recipes)} instead of the paper's configurations.")
    elif request.is_small:
        sentences.append("Two games and two configurations.")
    if request.is_small:
        sentences.append(f"{_SMALL_STEPS:,} steps, of which little is learned.")
    return [*sentences, "Scores are those of training, with its exploration."]


SCORES = Experiment(
    name="scores",
    source=f"{STOOKE}, table 1 and figures 9 to 11",
    shows="Scores on Atari games of baseline and scaled configurations.",
    jobs=_jobs,
    draw=_draw,
    differs=_differs,
    hours=0.45,
    seeds=(3, 2),
    needs=ATARI,
    env_of=env_of_atari_game,
    normalises=True,
    compares_recipes=True,
)
