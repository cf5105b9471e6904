"""Stooke & Abbeel, table 1 and figures 9 to 11: scores on Atari games."""

from __future__ import annotations

import numpy as np

from veldt.experiments.catalogue.common import ALONE, ATARI, STOOKE, scores_table, seeded
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves, number
from veldt.experiments.results import Results
from veldt.report import statistics
from veldt.report.normalising import human_normalised, is_normalisable

# Configuration: the paper recipe, and the average and median human-normalised scores of table 1.
_ROWS = {
    "A2C 16-env": ("a2c-16", "2.5 · 0.65"),
    "A2C 128-env": ("a2c-128", "8.0 · 0.48"),
    "A3C 3×16-env": ("a3c-3x16", "5.4 · 0.53"),
    "PPO 8-env": ("ppo-8x256", "2.8 · 1.2"),
    "PPO 128-env": ("ppo-128x16", "9.8 · 0.97"),
    "APPO 8×8-env": ("appo-8", "8.8 · 1.2"),
    "DQN-512": ("dqn-512", "9.8 · 1.4"),
    "CatDQN-2048": ("c51-2048", "22.1 · 2.9"),
    "ε-Rainbow-512": ("rainbow-512", "22.4 · 2.5"),
}
_LEARNERS = {"a3c-3x16": 3, "appo-8": 8}
_SMALL = ("A2C 16-env", "PPO 8-env")
_SMALL_STEPS = 500_000
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
        for label in _SMALL if request.is_small else _ROWS:
            recipe = _ROWS[label][0]
            cores = _LEARNERS.get(recipe, 1)
            jobs += seeded(request, group=label, recipe=recipe, env=env, settings=settings, cores=cores)
    return jobs


def _normalised(results: Results) -> Table:
    """Returns, by configuration, aggregates of the human-normalised scores of games for which a human's is known."""
    by_group: dict[str, dict[str, list[float]]] = {}
    left_out: list[str] = []
    for chart, group, runs in results.groups():
        if is_normalisable(chart):
            if known := [human_normalised(run.score, chart) for run in runs if np.isfinite(run.score)]:
                by_group.setdefault(group, {})[chart] = known
        else:
            left_out.append(chart)
    rows = []
    for group, games in by_group.items():
        seeds = min(map(len, games.values()))
        scores = np.array([known[:seeds] for known in games.values()]).T  # [seeds, games]
        ends = (float("nan"), float("nan"))
        if seeds > 1:
            interval = statistics.stratified_interval(
                statistics.interquartile_mean, scores, repeats=1_000, seed=0
            )
            ends = (float(interval[0]), float(interval[1]))
        average, middle = number(float(statistics.mean(scores))), number(float(statistics.median(scores)))
        iqm = number(float(statistics.interquartile_mean(scores)), *ends)
        rows.append((group, str(len(games)), str(seeds), average, middle, iqm, _ROWS[group][1]))
    header = (
        "configuration",
        "games",
        "seeds",
        "average",
        "median",
        "IQM",
        "the paper's average · median, 49 games",
    )
    caption = "0 is a random player, 1 a human; null-op starts."
    if left_out:
        caption += f" Without a published human score, and left out: {', '.join(dict.fromkeys(left_out))}."
    return Table("Human-normalised scores", header, rows, caption)


def _draw(results: Results) -> Exhibit:
    normalised = _normalised(results)
    averages = "; ".join(
        f"{group} {average} ({games} games)" for group, games, _, average, *_ in normalised.rows
    )
    says = (
        f"Average human-normalised scores of training: {averages or '–'}. In the paper, scaled configurations (more "
        "simulators, larger batches) match the unscaled ones after 25 M (policy gradients) or 50 M steps."
    )
    return Exhibit(says, [learning_curves(results)], [normalised, scores_table(results)])


SCORES = Experiment(
    name="scores",
    source=f"{STOOKE}, table 1 and figures 9 to 11",
    shows="Scores on Atari games of baseline and scaled configurations.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        *(
            [f"Two games, two configurations and {_SMALL_STEPS:,} steps, of which little is learned."]
            if request.is_small
            else []
        ),
        "Scores are those of training, with its exploration.",
    ],
    hours=0.33,
    seeds=(1, 2),
    needs=ATARI,
    normalises=True,
)
