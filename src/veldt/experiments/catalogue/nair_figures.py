"""Nair et al. 2015 (Gorila), figures 3 to 5: published scores of all games, beside those of this experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from veldt.envs.source import ATARI_PREFIX
from veldt.experiments.catalogue.atari_tables import DQN, GAMES, GORILA
from veldt.experiments.catalogue.starts_tables import origin
from veldt.experiments.figures import Drawing, Table, charts, dots, line_style
from veldt.experiments.results import FinishedRun, Results
from veldt.report.normalising import game_key, human_normalised, is_normalisable, raw_score
from veldt.report.published import published_score, published_scores

_HOUR = 3600.0
# Hours after which Gorila with 100 bundles is above DQN's score, and on how many of 49 games (Nair et al., figure 5).
_AHEAD = {6: 19, 12: 23, 24: 30, 36: 38}
_HUNDRED_BUNDLES = "Gorila, 100 bundles (Nair et al. 2015)"

ByGame = Mapping[str, Mapping[str, float]]  # values by label and name of the game


def human_starts_figure(results: Results) -> Drawing:
    """Returns figure 3: human-normalised scores from human starts, of DQN, Gorila and the runs from recorded starts."""
    published = {
        label: {game: human_normalised(_score(agent, game, "human"), game, "human") for game in GAMES}
        for label, agent in ((DQN, "DQN"), (GORILA, "Gorila"))
    }
    own = _by_label(
        (f"{group}, {origin(one.job.starts)}", chart, human_normalised(one.score, chart, "human"))
        for (chart, group), several in results.from_starts().items()
        for one in several
        if is_normalisable(chart, "human")
    )
    ahead = sum(published[GORILA][game] > published[DQN][game] for game in GAMES)
    caption = (
        "0 is a random player, 1 a human, both from human starts; the axis is logarithmic from 1 on. A game's name has "
        "the colour of its highest score, and runs here are means over seeds; Gorila is above DQN on "
        f"{ahead} of {len(GAMES)} games. Nair et al., figure 3."
    )
    return dots(
        "Scores with human starts",
        caption,
        _rows(published[GORILA], own),
        published | own,
        "human-normalised score",
        references={"a human": 1.0},
        names_have_the_colour_of_the_highest=True,
    )


def gain(score: float, game: str, starts: str) -> float:
    """Returns a raw score over DQN's published one with the same starts, where 0 is a random player's: 1 is DQN's.

    Where DQN's is not above a random player's: infinite for a score that is, else NaN.
    """
    lowest = raw_score(0.0, game, starts)
    above, dqn_above = score - lowest, _score("DQN", game, starts) - lowest
    if dqn_above > 0.0:
        return above / dqn_above
    return float("inf") if above > 0.0 else float("nan")


def gains_figure(results: Results) -> Drawing:
    """Returns figure 4: the gain over DQN with human and null-op starts, of Gorila and of this experiment's runs."""
    published = {
        f"Gorila, {name}": {game: gain(_score("Gorila", game, starts), game, starts) for game in GAMES}
        for starts, name in (("human", "human starts"), ("no-op", "null-op starts"))
    }
    from_starts = [
        (f"{group}, {origin(one.job.starts)}", chart, gain(one.score, chart, "human"))
        for (chart, group), several in results.from_starts().items()
        if _is_published(chart)
        for one in several
    ]
    null_op = [
        (f"{group}, null-op starts", chart, gain(run.evaluation, chart, "no-op"))
        for chart, group, runs in results.groups()
        if _is_published(chart)
        for run in runs
        if np.isfinite(run.evaluation)
    ]
    own = _by_label([*from_starts, *null_op])
    human, null_op_games = (
        [sum(value > times for value in values.values()) for times in (2, 5)] for values in published.values()
    )
    without = "; ".join(
        f"{', '.join(game for game, value in values.items() if not np.isfinite(value))}"
        f" ({label.removeprefix('Gorila, ')})"
        for label, values in published.items()
    )
    caption = (
        "How far a score is above a random player's, over how far DQN's is, each with the same starts: 1 is DQN's, and "
        "the axis is logarithmic from there on. Gorila has more than twice DQN's on "
        f"{human[0]} games with human starts and {null_op_games[0]} with null-op starts, and more than five times on "
        f"{human[1]} and {null_op_games[1]}; these count games that are not drawn, since DQN itself is not above a "
        "random player: "
        f"{without}. Nair et al., figure 4."
    )
    first, *_ = published.values()
    return dots(
        "Gain over DQN",
        caption,
        _rows(first, own),
        published | own,
        "score over DQN's",
        references={"DQN": 1.0},
    )


def hours_figure(results: Results) -> Drawing:
    """Returns figure 5: on what share of games a configuration is at DQN's score, and at its own peak, over hours."""
    panels = {
        "at DQN's score": _hours_to_dqn(results),
        "at its own highest score": _hours(results, FinishedRun.peak),
    }
    figure, axes = charts(len(panels), list(panels), "hours of training", "games, %")
    longest: dict[str, float] = {}  # hours of training, by group
    for run in results.runs:
        longest[run.job.group] = max(longest.get(run.job.group, 0.0), run.seconds / _HOUR)
    styles = {group: line_style(number) for number, group in enumerate(longest)}
    for one, hours_by_group in zip(axes, panels.values(), strict=True):
        for group, hours in hours_by_group.items():
            x, share = shares(hours)
            one.step(
                [0.0, *x, longest[group]],
                [0.0, *share, share[-1] if share else 0.0],
                where="post",
                **styles[group],
            )
            one.lines[-1].set_label(group)
    percent = [100.0 * games / len(GAMES) for games in _AHEAD.values()]
    axes[0].plot(
        list(_AHEAD), percent, color="0.4", linestyle="--", marker="o", markersize=4, label=_HUNDRED_BUNDLES
    )
    for one in axes:
        one.set_xscale("symlog", linthresh=1.0)
        one.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        one.set_xlim(0.0, max(*longest.values(), *_AHEAD) * 1.1)
        one.set_ylim(-2.0, 102.0)
        if one.lines:
            one.legend(frameon=False, fontsize=7)
    caption = (
        "Share of the games that a configuration is trained on, over hours (logarithmic from 1 on), in which all seeds "
        "are there after this mean time. Here: the mean return of 100 episodes of training, and the first time that it "
        "is highest; a run with fewer episodes has no highest one. In Nair et al., figure 5: evaluations beside those "
        "of their own DQN; of Gorila's own highest scores the text has no numbers."
    )
    return Drawing("Games over hours", caption, figure)


def shares(hours: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns the finite hours in their order, and after each the percentage of all that have come."""
    reached = sorted(one for one in hours if np.isfinite(one))
    return reached, [100.0 * (number + 1) / len(hours) for number in range(len(reached))]


def ahead_table(results: Results) -> Table:
    """Returns on how many games each configuration is at DQN's published score after some hours."""
    rows = [
        (group, *(f"{sum(one <= hours for one in means)} of {len(means)}" for hours in _AHEAD))
        for group, means in _hours_to_dqn(results).items()
    ]
    rows.append((_HUNDRED_BUNDLES, *(f"{games} of {len(GAMES)}" for games in _AHEAD.values())))
    header = ("configuration", *(f"within {hours} hours" for hours in _AHEAD))
    caption = (
        f"Games in which all seeds come to the score of {DQN}, after this mean time. Here: the mean return of 100 "
        "episodes of training; in figure 5 of Nair et al., evaluations beside those of their own DQN."
    )
    return Table("Games with DQN's score", header, rows, caption)


def _hours_to_dqn(results: Results) -> dict[str, list[float]]:
    def step(run: FinishedRun) -> float:
        score = published_score("DQN", run.job.chart)
        assert score is not None  # `_hours` asks of no other game
        return run.steps_to(score)

    return _hours(results, step, _is_published)


def _hours(
    results: Results, step: Callable[[FinishedRun], float], has: Callable[[str], bool] = lambda chart: True
) -> dict[str, list[float]]:
    """Returns the mean hours over seeds until a step of each run, by group, of each game; infinite unless all have one.

    Args:
        step: NaN if the run has none.
        has: whether a game counts.
    """
    found: dict[str, list[float]] = {}
    for chart, group, runs in results.groups():
        if has(chart):
            steps = [step(run) for run in runs]
            hours = [float(run.seconds_at(one)) / _HOUR for run, one in zip(runs, steps, strict=True)]
            found.setdefault(group, []).append(fmean(hours) if np.isfinite(steps).all() else float("inf"))
    return found


def _is_published(chart: str) -> bool:
    return published_score("DQN", chart) is not None


def _score(agent: str, game: str, starts: str) -> float:
    return published_scores(agent, starts)[game_key(game)]


def _by_label(values: Iterable[tuple[str, str, float]]) -> dict[str, dict[str, float]]:
    """Returns the means over seeds of (label, environment, value), by label and by the name of the game."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, env, value in values:
        found.setdefault(label, {}).setdefault(_name_of(env), []).append(value)
    return {label: {game: fmean(every) for game, every in games.items()} for label, games in found.items()}


def _name_of(env: str) -> str:
    """Returns the name of a game as `GAMES` has it, or else as its id has it."""
    names = {game_key(game): game for game in GAMES}
    return names.get(game_key(env), env.removeprefix(ATARI_PREFIX))


def _rows(of: Mapping[str, float], own: ByGame) -> list[str]:
    """Returns all games: by their values `of`, the highest first, and those of this experiment alone after them."""
    more = dict.fromkeys(game for games in own.values() for game in games if game not in of)
    return [*sorted(of, key=lambda game: -of[game]), *more]
