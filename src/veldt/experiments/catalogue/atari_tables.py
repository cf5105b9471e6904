"""Tables of scores on Atari games beside published ones: of training, of evaluation, and the time to a score."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter

import numpy as np

from veldt.experiments.catalogue.verdicts import over_games
from veldt.experiments.experiment import Request
from veldt.experiments.figures import Table, number
from veldt.experiments.results import FinishedRun, Results, interval
from veldt.formatting import duration
from veldt.report import statistics
from veldt.report.normalising import human_normalised, is_normalisable, raw_score
from veldt.report.published import published_score, published_scores

DQN, GORILA = "DQN (Mnih et al. 2015)", "Gorila (Nair et al. 2015)"
# Configuration: the paper recipe ("" for those that are quoted), and the average and median human-normalised scores of
# 49 games in table 1 of Stooke & Abbeel ("": from the published scores of the games).
CONFIGURATIONS = {
    "A2C 16-env": ("a2c-16", "2.5 · 0.65"),
    "A2C 128-env": ("a2c-128", "8.0 · 0.48"),
    "A3C 3×16-env": ("a3c-3x16", "5.4 · 0.53"),
    "PPO 8-env": ("ppo-8x256", "2.8 · 1.2"),
    "PPO 128-env": ("ppo-128x16", "9.8 · 0.97"),
    "APPO 8×8-env": ("appo-8", "8.8 · 1.2"),
    DQN: ("", ""),
    GORILA: ("gorila", ""),
    "DQN-32 (van Hasselt et al. 2016)": ("", "2.4 · 0.96"),
    "DQN-512": ("dqn-512", "9.8 · 1.4"),
    "CatDQN-32 (Bellemare et al. 2017)": ("", "25.5 · 2.1"),
    "CatDQN-2048": ("c51-2048", "22.1 · 2.9"),
    "ε-Rainbow-512": ("rainbow-512", "22.4 · 2.5"),
}
_ALL_GAMES = (
    "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Bowling Boxing "
    "Breakout Centipede ChopperCommand CrazyClimber DemonAttack DoubleDunk Enduro FishingDerby Freeway "
    "Frostbite Gopher Gravitar Hero IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge "
    "MsPacman NameThisGame Pong PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest SpaceInvaders "
    "StarGunner Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor Zaxxon"
)
GAMES = tuple(_ALL_GAMES.split())  # of both papers
_AGENTS = {DQN: "DQN", GORILA: "Gorila"}
_GOALS = (0.1, 0.5, 1.0)  # human-normalised scores whose time is shown

Scores = dict[str, dict[str, list[float]]]  # human-normalised, by configuration and game, of each seed


def known_scores(
    results: Results, score: Callable[[FinishedRun], float] = attrgetter("score")
) -> tuple[Scores, list[str]]:
    """Returns the scores that can be normalised, and the environments for which no human's is known."""
    scores: Scores = {}
    left_out: list[str] = []
    for chart, group, runs in results.groups():
        if not is_normalisable(chart):
            left_out.append(chart)
        elif known := [human_normalised(value, chart) for value in map(score, runs) if np.isfinite(value)]:
            scores.setdefault(group, {})[chart] = known
    return scores, list(dict.fromkeys(left_out))


def array_of(games: Mapping[str, Sequence[float]], names: Collection[str]) -> np.ndarray:
    """Returns the scores of the games `names` as [seeds, games], of as many seeds as all of them have."""
    seeds = min(len(games[name]) for name in names)
    return np.array([games[name][:seeds] for name in names]).T


def normalised_table(
    title: str, request: Request, scores: Scores, left_out: Sequence[str], means: str
) -> Table:
    """Returns aggregates of the human-normalised scores beside the published ones of each configuration.

    Where the user has named recipes, there is a row for each of these instead. `means` says what the scores are of.
    """
    rows = []
    for group in request.recipes or CONFIGURATIONS:
        published = "–" if request.recipes else _published_aggregates(group)
        games = scores.get(group)
        if not games:
            rows.append((group, "0", "0", "–", "–", "–", published))
            continue
        array = array_of(games, games)
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
        "published average · median, 49 games",
    )
    caption = (
        f"0 is a random player, 1 a human; null-op starts. {means} The interval of the IQM is the bootstrap's over "
        "seeds, stratified by game and made wider for few seeds. Published: Stooke & Abbeel's table 1; of "
        f"{DQN} and {GORILA}, from their evaluations of each game, with the same scores of humans."
    )
    if left_out:
        caption += f" Without a published human score, and left out: {', '.join(left_out)}."
    return Table(title, header, rows, caption)


def _published_aggregates(configuration: str) -> str:
    agent = _AGENTS.get(configuration)
    return CONFIGURATIONS[configuration][1] if agent is None else average_and_median(agent, "no-op")


def average_and_median(agent: str, starts: str) -> str:
    """Returns the average and the median of an agent's published human-normalised scores, in words."""
    scores = published_scores(agent, starts)
    values = [human_normalised(score, game, starts) for game, score in scores.items()]
    return f"{np.mean(values):.2g} · {np.median(values):.2g}"


def evaluation_table(results: Results) -> Table:
    """Returns the scores of training and of the evaluation after it, raw and normalised, beside published ones."""
    rows = []
    for chart, group, runs in results.groups():
        trained, evaluated = (
            [getattr(run, name) for run in runs if np.isfinite(getattr(run, name))]
            for name in ("score", "evaluation")
        )
        published = [published_score(agent, chart) for agent in ("DQN", "Gorila")]
        rows.append(
            (
                *(chart, group, str(len(evaluated))),
                *(number(*interval(scores)) for scores in (trained, evaluated)),
                *(_normalised(scores, chart) for scores in (trained, evaluated)),
                *("–" if score is None else number(score) for score in published),
            )
        )
    header = (
        *("game", "configuration", "seeds that are evaluated", "training", "evaluation"),
        *("training, normalised", "evaluation, normalised", DQN, GORILA),
    )
    caption = (
        "Mean raw returns: of training, of the episodes in the last tenth of the steps; of evaluation, of the whole "
        "episodes with null-op starts in its steps, after the end of training. The published ones are of evaluation."
    )
    return Table("Evaluation with null-op starts", header, rows, caption)


def _normalised(scores: Sequence[float], game: str) -> str:
    if not is_normalisable(game):
        return "–"
    return number(*interval([human_normalised(score, game) for score in scores]))


def times_table(results: Results) -> Table:
    """Returns when the mean return of 100 episodes first was at some human-normalised scores, and at DQN's."""
    rows = []
    for chart, group, runs in results.groups():
        for goal, score in _goals(chart).items():
            steps, seconds = _reached(runs, score)
            rows.append(
                (
                    chart,
                    group,
                    goal,
                    number(score),
                    f"{len(steps)} of {len(runs)}",
                    number(float(np.mean(steps))) if steps else "–",
                    duration(float(np.mean(seconds))) if steps else "–",
                )
            )
    header = ("game", "configuration", "goal", "mean return", "seeds that reach it", "steps", "time")
    caption = "The mean return is that of the last 100 episodes; steps and time are means of the seeds that reach it."
    return Table("Time to a score", header, rows, caption)


def _goals(game: str) -> dict[str, float]:
    """Returns the raw scores whose time is shown, by what they are."""
    shares = _GOALS if is_normalisable(game) else ()
    dqn = published_score("DQN", game)
    return {f"{share:.0%} of a human": raw_score(share, game) for share in shares} | (
        {} if dqn is None else {DQN: dqn}
    )


def _reached(runs: Sequence[FinishedRun], score: float) -> tuple[list[float], list[float]]:
    """Returns the steps and the seconds of training until a score, of the runs that reach it."""
    reached = [(run, step) for run in runs if np.isfinite(step := run.steps_to(score))]
    return [step for _, step in reached], [float(run.seconds_at(step)) for run, step in reached]
