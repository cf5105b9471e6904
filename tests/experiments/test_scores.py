"""Scores on Atari games: of training and of evaluation, beside published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_results import AGREES, DOES_NOT, UNSEEN, drawn, seeded
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.catalogue.atari_tables import CONFIGURATIONS
from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Line, learning_curves
from veldt.experiments.results import FinishedRun, Results
from veldt.report.normalising import raw_score
from veldt.report.published import published_curve


def test_scores_have_the_paper_s_own_and_the_time_to_a_score() -> None:
    unscaled = "a2c-16"
    small = drawn(
        "scores",
        lambda job: 20.0,
        games=("ALE/Breakout-v5",),
        seeds=2,
        only=lambda job: job.recipe == unscaled,
    )
    assert "A2C 16-env 0.635 (1 game)" in small.says
    assert small.says.endswith(f"{UNSEEN} no scaled configuration is trained beside its unscaled one.")
    normalised, _, _, _, times, ahead, _ = small.tables
    assert [row[0] for row in normalised.rows] == list(CONFIGURATIONS) and len(normalised.rows) == 13
    assert normalised.rows[0][1:] == ("1", "2", "0.635", "0.635", "0.635 [0.635, 0.635]", "2.5 · 0.65")
    assert normalised.rows[8] == ("DQN-32 (van Hasselt et al. 2016)", "0", "0", "–", "–", "–", "2.4 · 0.96")
    assert [row[2:] for row in times.rows[:4]] == [
        ("10% of a human", "4.580", "2 of 2", "2,230", "5.6s"),
        ("50% of a human", "16.1", "2 of 2", "2,810", "7.0s"),
        ("100% of a human", "30.5", "0 of 2", "–", "–"),
        ("DQN (Mnih et al. 2015)", "401.2", "0 of 2", "–", "–"),
    ]
    assert ahead.rows[0][1:] == ("0 of 1",) * 4
    assert ahead.rows[-1][1:] == ("19 of 49", "23 of 49", "30 of 49", "38 of 49")


def test_scores_of_evaluation_are_beside_those_of_training_and_published_ones() -> None:
    """The last evaluation of a run counts; one whose steps ended no episode has none."""

    def metrics(job: Training) -> dict[str, float]:
        return {"eval/ep_return_mean": 30.5 * job.seed} if job.recipe == "a2c-16" else {}

    exhibit = drawn("scores", lambda job: 16.1, games=("ALE/Breakout-v5",), seeds=2, metrics=metrics)
    _, normalised, evaluated, starts, *_ = exhibit.tables
    assert normalised.rows[0][:5] == ("A2C 16-env", "1", "2", "1.530", "1.530")
    assert normalised.rows[1][:4] == ("A2C 128-env", "0", "0", "–")
    assert [(row[0], row[-1]) for row in normalised.rows[6:8]] == [
        ("DQN (Mnih et al. 2015)", "1.8 · 0.79"),
        ("Gorila (Nair et al. 2015)", "2.1 · 0.88"),
    ]
    one, other = evaluated.rows
    assert one[2] == "2" and one[4] == "45.8 [30.5, 61.0]" and one[6] == "1.530 [1.000, 2.059]"
    assert one[3] == "16.1 [16.1, 16.1]" and one[-2:] == ("401.2", "402.2")
    assert other[2] == "0" and other[4] == other[6] == "–"
    assert [(row[0], row[-1]) for row in starts.rows] == [("null-op", "31 of 49"), ("human", "41 of 49")]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_run_has_its_steps_at_the_paper_s_scale(name: str) -> None:
    """Which the plan, the live table and the resumption need; a run of scores has an evaluation at its end."""
    one = EXPERIMENTS[name]
    jobs = [job for job in one.jobs(Request("paper", 1)) if isinstance(job, Training)]
    assert all(int(job.settings["steps"]) > 0 for job in jobs)
    if name == "scores":
        assert {job.settings["steps"] for job in jobs} == {25_000_000, 50_000_000}
        assert all(job.settings["evaluate_every"] == job.settings["steps"] for job in jobs)
        assert {job.cores for job in jobs if job.recipe == "gorila"} == {0}


def test_scores_of_other_recipes_are_beside_a_published_agents_and_not_judged() -> None:
    exhibit = drawn("scores", lambda job: 20.0, games=("ALE/Breakout-v5",), recipes=("ppo", "impala"))
    assert exhibit.says == (
        "Average human-normalised scores of training: ppo 0.635 (1 game); impala 0.635 (1 game)."
    )
    assert [(row[0], row[-1]) for row in exhibit.tables[0].rows] == [("ppo", "–"), ("impala", "–")]
    for run_steps, points in ((2_000, 0), (500_000, 2), (3_000_000, 4)):
        steps, scores = published_curve("Rainbow", "ALE/Breakout-v5", run_steps)
        assert len(steps) == len(scores) == points and steps[:2] == [250_000, 500_000][:points]
    assert published_curve("Rainbow", "CartPole-v1", 1e9) == ([], [])


@pytest.mark.parametrize(
    ("scale", "recipes", "said"),
    [
        ("paper", ("a2c", "impala"), "a2c 10M, impala 50M."),
        ("paper", ("dqn", "impala"), ""),
        ("small", ("a2c", "impala"), ""),
    ],
)
def test_numbers_of_steps_of_recipes_are_said_where_they_differ(
    scale: Any, recipes: tuple[str, ...], said: str
) -> None:
    differs = " ".join(EXPERIMENTS["scores"].differs(Request(scale, 1, ("ALE/Pong-v5",), recipes)))
    assert said in differs and ("different numbers of steps" in differs) == bool(said)


def test_a_published_curve_is_drawn_over_the_steps() -> None:
    results = Results(Request("small", 1), [run_of("scores", "ALE/Pong-v5")], [], [])
    published = {"ALE/Pong-v5": {"a line": 3.0, "a curve": Line((1, 2), (-20.0, -19.0))}}
    (chart, *_) = learning_curves(results, references=published).figure.axes
    labelled = {str(line.get_label()): line for line in chart.lines}
    assert np.asarray(labelled["a line"].get_ydata()).tolist() == [3.0, 3.0]
    assert np.asarray(labelled["a curve"].get_xdata()).tolist() == [1, 2]
    assert np.asarray(labelled["a curve"].get_ydata()).tolist() == [-20.0, -19.0]


def run_of(name: str, game: str) -> FinishedRun:
    """A run of the experiment's first job on a game, with two episodes."""
    (job, *_) = EXPERIMENTS[name].jobs(Request("small", 1, (game,)))
    assert isinstance(job, Training)
    run = FinishedRun(job, Path())
    episodes = (np.array([500.0, 1_000.0]), np.array([1.0, 2.0]))
    vars(run).update(summary={"steps": 1_000, "seconds": 1.0}, rows=[], episodes=episodes)
    return run


def test_scaled_configurations_are_compared_with_unscaled_ones() -> None:
    lost = {"a2c-128": 0.5, "appo-8": 0.5}
    exhibit = drawn(
        "scores",
        lambda job: raw_score(seeded(lost.get(job.recipe, 1.0), job), job.env),
        games=("ALE/Breakout-v5", "ALE/Pong-v5"),
        scale="paper",
        seeds=2,
        only=lambda job: job.recipe.startswith(("a", "p")),
    )
    assert (
        f"This {AGREES} for A3C 3×16-env against A2C 16-env and PPO 128-env against PPO 8-env."
        in exhibit.says
    )
    assert (
        f"This {DOES_NOT} for A2C 128-env against A2C 16-env and APPO 8×8-env against PPO 8-env."
        in exhibit.says
    )
