"""Figures 3 to 5 of Nair et al., and tables of scores from recorded starts."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from experiment_results import drawn, recorded
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.catalogue.atari_tables import DQN, GAMES, GORILA
from veldt.experiments.catalogue.nair_figures import ahead_table, gain, gains_figure, hours_figure, shares
from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Drawing, dots
from veldt.experiments.recorded_starts import RecordedStarts
from veldt.experiments.results import FinishedRun, Results
from veldt.report.finished_episodes import first_highest
from veldt.report.normalising import game_key, human_normalised, reference_rows
from veldt.report.published import published_score, published_scores

PONG, BREAKOUT, BLACKJACK = "ALE/Pong-v5", "ALE/Breakout-v5", "ALE/Blackjack-v5"


def starts_of(**by: str) -> tuple[RecordedStarts, ...]:
    return tuple(
        RecordedStarts(f"ALE/{game}-v5", recorded(f"ALE/{game}-v5", who), "checksum")
        for game, who in by.items()
    )


def points(drawing: Drawing) -> dict[str, dict[str, float]]:
    """The values of a chart of dots, by label and row."""
    (axes,) = drawing.figure.axes
    rows = [text.get_text() for text in axes.get_yticklabels()]
    return {
        str(line.get_label()): {
            rows[int(y)]: float(x) for x, y in np.asarray(line.get_xydata()).reshape(-1, 2)
        }
        for line in axes.lines
        if line.get_linestyle() == "None"
    }


def of_table(agent: str, game: str, starts: str) -> float:
    (score,) = (
        float(row["score"])
        for row in reference_rows("atari_agents.csv")
        if (row["agent"], row["starts"]) == (agent, starts) and game_key(row["game"]) == game_key(game)
    )
    return score


def random_of(game: str, starts: str) -> float:
    (lowest,) = (
        float(row["random"])
        for row in reference_rows("atari_scores.csv")
        if row["starts"] == starts and game_key(row["game"]) == game_key(game)
    )
    return 0.0 if game == "VideoPinball" else lowest


def exhibit_of(**more: Any) -> Any:
    def from_starts(job: Training) -> float:
        return {PONG: 10.0, BREAKOUT: 100.0, BLACKJACK: 1.0}[job.env] * job.seed

    given: dict[str, Any] = {
        "games": (PONG, BREAKOUT, BLACKJACK),
        "seeds": 2,
        "starts": starts_of(Pong="agent", Breakout="person", Blackjack=""),
        "from_starts": from_starts,
        "metrics": lambda job: {"eval/ep_return_mean": 2.0 * from_starts(job)},
        "only": lambda job: job.recipe == "a2c-16",
    }
    return drawn("scores", lambda job: 20.0, **given | more)


def test_the_games_are_those_of_the_published_tables() -> None:
    for agent in ("DQN", "Gorila"):
        for starts in ("no-op", "human"):
            assert published_scores(agent, starts).keys() == {game_key(game) for game in GAMES}
    assert len(GAMES) == 49


def test_scores_from_starts_have_a_table_with_who_recorded_these() -> None:
    (table,) = (one for one in exhibit_of().tables if one.title == "Evaluation from recorded starts")
    pong, breakout, blackjack = table.rows
    assert pong[:6] == (PONG, "A2C 16-env", "2", "2", "an agent", "15.0 [10.0, 20.0]")
    normalised = [human_normalised(score, "Pong", "human") for score in (10.0, 20.0)]
    assert pong[6] == f"{fmean(normalised):.3f} [{normalised[0]:.3f}, {normalised[1]:.3f}]"
    for cell, agent in ((7, "DQN"), (9, "Gorila")):
        score = of_table(agent, "Pong", "human")
        assert pong[cell : cell + 2] == (f"{score:.1f}", f"{human_normalised(score, 'Pong', 'human'):.3f}")
    assert breakout[4] == "a person" and blackjack[4:] == ("unknown", "1.500 [1.000, 2.000]", *("–",) * 5)
    assert "Starts that an agent has recorded are not human starts" in table.caption


def test_there_is_no_such_table_without_starts() -> None:
    titles = [one.title for one in drawn("scores", lambda job: 20.0, games=(PONG,), seeds=1).tables]
    assert "Evaluation from recorded starts" not in titles and len(titles) == 7


def test_figure_3_has_published_scores_and_those_from_starts_by_who_recorded_them() -> None:
    _, drawing, *_ = exhibit_of().drawings
    shown = points(drawing)
    for label, agent in ((DQN, "DQN"), (GORILA, "Gorila")):
        assert shown[label] == pytest.approx(
            {game: human_normalised(of_table(agent, game, "human"), game, "human") for game in GAMES}
        )
    assert shown["A2C 16-env, an agent's starts"] == {
        "Pong": pytest.approx(human_normalised(15.0, "Pong", "human"))
    }
    assert shown["A2C 16-env, human starts"] == {
        "Breakout": pytest.approx(human_normalised(150.0, "Breakout", "human"))
    }
    assert not any("unknown" in label for label in shown)  # of which no human's score is published
    assert "Gorila is above DQN on 41 of 49 games" in drawing.caption
    (axes,) = drawing.figure.axes
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows == sorted(GAMES, key=lambda game: -shown[GORILA][game])
    colours = {text.get_text(): text.get_color() for text in axes.get_yticklabels()}
    assert sum(colour == "C1" for colour in colours.values()) == 41
    assert colours["Enduro"] == "C0"


def test_figure_4_has_the_gains_with_both_kinds_of_starts() -> None:
    _, _, drawing, _ = exhibit_of().drawings
    shown = points(drawing)
    for name, starts in (("human starts", "human"), ("null-op starts", "no-op")):
        expected = {}
        for game in GAMES:
            lowest = random_of(game, starts)
            dqn, gorila = (of_table(agent, game, starts) - lowest for agent in ("DQN", "Gorila"))
            if dqn > 0:
                expected[game] = gorila / dqn
        assert shown[f"Gorila, {name}"] == pytest.approx(expected)
        assert len(expected) == {"human": 43, "no-op": 48}[starts]
    # Nair et al.: with human starts more than twice of DQN's on 22 games, and five times on 11.
    said = "on 22 games with human starts and 11 with null-op starts, and more than five times on 11 and 3;"
    assert said in drawing.caption
    lowest, dqn = random_of("Breakout", "human"), of_table("DQN", "Breakout", "human")
    assert shown["A2C 16-env, human starts"] == {"Breakout": pytest.approx((150.0 - lowest) / (dqn - lowest))}
    null_op = shown["A2C 16-env, null-op starts"]
    assert null_op.keys() == {"Pong", "Breakout"}
    lowest, dqn = random_of("Pong", "no-op"), of_table("DQN", "Pong", "no-op")
    assert null_op["Pong"] == pytest.approx((30.0 - lowest) / (dqn - lowest))


def test_a_gain_over_a_score_that_is_no_gain() -> None:
    assert gain(2_000.0, "Asterix", "human") == float("inf")
    assert np.isnan(gain(100.0, "Asterix", "human"))
    assert gain(of_table("DQN", "Pong", "human"), PONG, "human") == 1.0


def run_of(job: Training, seconds: float, returns: list[float]) -> FinishedRun:
    """A run of steps of 10 for each of its episodes, at an even speed."""
    steps = 10.0 * np.arange(1, len(returns) + 1)
    run = FinishedRun(job, Path())
    rows = [{"step": steps[-1], "seconds": seconds}]
    summary = {"steps": steps[-1], "seconds": seconds}
    vars(run).update(summary=summary, rows=rows, episodes=(steps, np.array(returns)))
    return run


def test_figure_5_has_the_hours_at_which_each_run_is_at_dqns_score_and_at_its_own_peak() -> None:
    """Two games, three seeds each; in one of the games a seed has fewer than 100 episodes."""
    rng, hours = np.random.default_rng(0), 40.0
    runs: list[FinishedRun] = []
    naive: dict[str, dict[str, list[float]]] = {"dqn": {}, "peak": {}}
    for job in EXPERIMENTS["scores"].jobs(Request("small", 3, (PONG, BREAKOUT))):
        assert isinstance(job, Training)
        if job.group != "A2C 16-env":
            continue
        episodes = 60 if (job.env, job.seed) == (BREAKOUT, 3) else 400
        dqn = published_score("DQN", job.env)
        assert dqn is not None
        returns = (dqn + rng.normal(0.0, 3.0, episodes) + np.linspace(-9.0, 9.0, episodes)).tolist()
        runs.append(run_of(job, 3_600.0 * hours, returns))
        means = [fmean(returns[end - 100 : end]) for end in range(100, episodes + 1)]
        at = {
            "dqn": next((number for number, mean in enumerate(means) if mean >= dqn), None),
            "peak": max(range(len(means)), key=means.__getitem__) if means else None,
        }
        for name, number in at.items():
            reached = float("inf") if number is None else hours * (100 + number) / episodes
            naive[name].setdefault(job.env, []).append(reached)
    results = Results(Request("small", 3, (PONG, BREAKOUT)), runs, [], [])
    drawing = hours_figure(results)
    for axes, name in zip(drawing.figure.axes, ("dqn", "peak"), strict=True):
        line, *others = axes.lines
        assert line.get_label() == "A2C 16-env" and len(others) == (name == "dqn")
        at = fmean(naive[name][PONG])
        assert fmean(naive[name][BREAKOUT]) == float("inf")
        assert np.asarray(line.get_xdata()).tolist() == pytest.approx([0.0, at, hours])
        assert np.asarray(line.get_ydata()).tolist() == [0.0, 50.0, 50.0]
    (paper,) = drawing.figure.axes[0].lines[1:]
    assert np.allclose(
        paper.get_xydata(), [(6, 1900 / 49), (12, 2300 / 49), (24, 3000 / 49), (36, 3800 / 49)]
    )
    (own, _) = ahead_table(results).rows
    at = fmean(naive["dqn"][PONG])
    assert own[1:] == tuple(f"{int(at <= limit)} of 2" for limit in (6, 12, 24, 36)) and 6 < at < 36


def test_shares_of_games() -> None:
    assert shares([5.0, float("inf"), 1.0, 5.0]) == ([1.0, 5.0, 5.0], [25.0, 50.0, 75.0])
    assert shares([]) == ([], [])


def test_the_highest_mean_of_100_episodes_is_the_first_one() -> None:
    steps = np.arange(1.0, 251.0)
    assert first_highest(steps, np.repeat([0.0, 1.0, 0.0], (100, 100, 50))) == 200.0
    assert first_highest(steps, np.ones(250)) == 100.0
    assert first_highest(steps[:99], np.ones(99)) is None


def test_the_figures_are_drawn_without_any_run() -> None:
    nothing = Results(Request("small", 1), [], [], [])
    assert set(points(gains_figure(nothing))) == {"Gorila, human starts", "Gorila, null-op starts"}
    assert [len(axes.lines) for axes in hours_figure(nothing).figure.axes] == [1, 0]


def test_rows_that_have_no_value_have_no_colour() -> None:
    drawing = dots(
        "t",
        "c",
        ["a", "b", "c"],
        {"one": {"a": 1.0, "b": float("nan")}, "two": {"a": 2.0, "b": float("inf")}},
        "x",
        references={},
        names_have_the_colour_of_the_highest=True,
    )
    (axes,) = drawing.figure.axes
    assert [text.get_color() for text in axes.get_yticklabels()] == ["C1", "black", "black"]
    assert points(drawing) == {"one": {"a": 1.0}, "two": {"a": 2.0}}


def test_the_page_says_what_the_starts_are() -> None:
    def differs(*starts: RecordedStarts) -> str:
        return " ".join(EXPERIMENTS["scores"].differs(Request("small", 1, (PONG, BREAKOUT), (), starts)))

    assert "Null-op starts only: human starts need games that a human has played." in differs()
    by_agent = differs(*starts_of(Pong="agent"))
    assert f"The starts of {PONG} were recorded by an agent: they are not human starts." in by_agent
    assert f"Numbers of starts other than 100: 2 of {PONG}." in by_agent
    assert f"Null-op starts only, without a file of starts: {BREAKOUT}." in by_agent
    both = differs(*starts_of(Pong="person", Breakout=""))
    assert f"The starts of {PONG} were recorded by a person here: human starts, of another human" in both
    assert f"The starts of {BREAKOUT} are of unknown origin" in both and "without a file" not in both
