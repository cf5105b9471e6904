"""Whether what each experiment shows agrees with its paper, on results where the answer is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_results import AGREES, DOES_NOT, UNSEEN, drawn, seeded
from veldt.algorithms.q_learning import QLearningConfig
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Request, Training
from veldt.experiments.figures import Exhibit
from veldt.experiments.results import FinishedRun, Results, interval, mean_line
from veldt.networks.own import NO_PARTS
from veldt.recipes.configure import configure
from veldt.report.normalising import human_normalised, raw_score


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_verdict_without_results_and_with_one_seed(name: str) -> None:
    one = EXPERIMENTS[name]
    says = one.draw(Results(Request("small", 1), [], [], [])).says
    assert says.startswith("Nothing is measured yet. ") and says.endswith(f"{UNSEEN} results are missing.")
    jobs = one.jobs(Request("small", 1))
    if one.repeats and isinstance(jobs[0], Training):
        says = drawn(
            name, lambda job: 100.0, seeds=1, metrics=lambda job: {"train/gradient_cosine": 0.7}
        ).says
        assert UNSEEN in says and AGREES not in says and DOES_NOT not in says
        says = drawn(name, lambda job: float("nan"), seeds=2).says
        assert "nan" not in says


def test_simulators_agree_where_nine_tenths_of_the_score_are_kept() -> None:
    lost = {"a2c": 0.5, "ppo": 0.95, "a3c": 0.91, "appo": 0.2}
    exhibit = drawn("simulators", lambda job: seeded(100 * (lost[job.recipe] if job.x == 128 else 1), job))
    assert (
        f"This {AGREES} for ppo on CartPole-v1 and a3c on CartPole-v1. This {DOES_NOT} for a2c on"
        in exhibit.says
    )
    assert (
        "appo on CartPole-v1 100.2 with 8, 20.0 with 128" in exhibit.says and exhibit.says.count("appo") == 1
    )
    few = drawn("simulators", lambda job: seeded(100, job), only=lambda job: job.x == 8)
    assert few.says.count("appo") == 1, "it has no verdict of one number of simulators either"


def test_batches_are_judged_up_to_the_size_that_the_paper_finds_consistent() -> None:
    """All lose beyond 512, which the paper finds of DQN and Rainbow, but not of Categorical DQN."""
    exhibit = drawn("batches", lambda job: seeded(10 if job.x > 512 else 100, job))
    assert (
        f"This {AGREES} for dqn on CartPole-v1 and rainbow on CartPole-v1. This {DOES_NOT} for c51"
        in exhibit.says
    )
    assert (
        "dqn on CartPole-v1 100.2 with 32, 100.2 with 512; c51 on CartPole-v1 100.2 with 32, 10.0 with 2048"
        in (exhibit.says)
    )
    few = drawn("batches", lambda job: seeded(100, job), only=lambda job: job.x == 2048)
    assert f"{UNSEEN} results are missing" in few.says, "nothing to compare with"


@pytest.mark.parametrize(("name", "baseline"), [("replicas", "k = 1"), ("epsilons", "one ε for each env")])
def test_scores_of_apex_agree_where_they_are_equal(name: str, baseline: str) -> None:
    same = drawn(name, lambda job: seeded(95 if job.group == baseline else 100, job))
    assert AGREES in same.says and DOES_NOT not in same.says
    better = drawn(name, lambda job: seeded(50 if job.group == baseline else 100, job))
    assert DOES_NOT in better.says and AGREES not in better.says
    alone = drawn(name, lambda job: seeded(50, job), only=lambda job: job.group != baseline)
    assert f"{UNSEEN} results are missing" in alone.says


def test_minutes_are_those_until_four_fifths_of_the_way_to_the_best() -> None:
    """The mean of 100 episodes is 80 after 80 episodes with 100; a3c has 50 only, and ends before ten minutes."""
    slow = {"ppo": 1_200.0, "a3c": 500.0}
    exhibit = drawn(
        "minutes",
        lambda job: 50.0 if job.recipe == "a3c" else 100.0,
        seconds=lambda job: slow.get(job.recipe, 100.0) + 0.01 * job.seed,
        seeds=2,
    )
    assert (
        "up to the best, 80.0 on CartPole-v1: a2c 1m 10s, a3c not within 8m 20s, ppo 14m 00s" in exhibit.says
    )
    assert f"This {AGREES} for a2c on CartPole-v1 and appo on CartPole-v1" in exhibit.says
    assert f"This {DOES_NOT} for ppo on CartPole-v1" in exhibit.says
    assert f"a3c on CartPole-v1 {UNSEEN} runs that end within 10 minutes do not reach it" in exhibit.says


@pytest.mark.parametrize(
    ("seeds", "reach", "verdict"),
    [(2, 0, DOES_NOT), (1, 0, f"{UNSEEN} one seed does"), (2, 1, f"{UNSEEN} only some seeds reach it")],
)
def test_a_score_that_is_not_reached_in_ten_minutes(seeds: int, reach: int, verdict: str) -> None:
    """Of a3c, which trains for longer; one seed that fails says nothing of the others."""
    exhibit = drawn(
        "minutes",
        lambda job: 50.0 if job.recipe == "a3c" and job.seed > reach else 100.0,
        seconds=lambda job: 700.0 if job.recipe == "a3c" else 100.0,
        seeds=seeds,
        only=lambda job: job.recipe in ("a2c", "a3c"),
    )
    assert verdict in exhibit.says


def test_norms_are_means_over_seeds() -> None:
    def metrics(job: Training) -> dict[str, float]:
        spread = 1.1 if job.settings["optimiser"] == "adam" else 2.0
        weights = 10.0 * (spread if job.x == 1024 else 1.0) * job.seed
        return {"norms/weights": weights, "norms/gradient": 4.0 if job.x == 64 else 1.0, "norms/step": 1.0}

    exhibit = drawn("norms", lambda job: 1.0, seeds=2, metrics=metrics)
    assert f"This {AGREES} for the weights of adam on CartPole-v1, the gradients of adam on" in exhibit.says
    assert f"This {DOES_NOT} for the weights of rmsprop on CartPole-v1." in exhibit.says
    assert (
        "the smallest, and the gradient's mean norm with the largest batch 0.250 [0.250, 0.250] times"
        in exhibit.says
    )
    (row,) = [
        row
        for row in exhibit.tables[1].rows
        if row[:2] == ("adam on CartPole-v1", "batch 64, step size 0.00042")
    ]
    assert row[2:4] == ("2", "15.0 [10.0, 20.0]")
    assert "mean of 2 seeds" in exhibit.drawings[1].caption


def test_a_seed_without_a_norm_in_one_group_is_not_compared() -> None:
    def metrics(job: Training) -> dict[str, float]:
        lost = job.seed == 3 and job.x == 256
        norms = {"norms/gradient": 1.0, "norms/step": 1.0}
        return norms if lost else norms | {"norms/weights": 10.0 if job.seed < 3 else 100.0 * job.x}

    says = drawn("norms", lambda job: 1.0, metrics=metrics).says
    assert says.count("at the end is 1.000 [1.000, 1.000] times the smallest") == 2


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_norms_have_the_step_size_that_their_names_say(scale: Any) -> None:
    """On Atari the recipe scales the step size with the batch."""
    for job in EXPERIMENTS["norms"].jobs(Request(scale, 1)):
        assert isinstance(job, Training)
        config = configure(job.recipe, job.env, {}, None, NO_PARTS, job.settings).config.learn
        assert isinstance(config, QLearningConfig) and config.learning_rate_scale == 1.0
        assert job.group.endswith(f"step size {config.learning_rate:g}")


def test_norms_at_other_step_sizes_are_dashed_and_compared_with_the_chosen_one() -> None:
    def says(too_small: float, too_large: float) -> str:
        def metrics(job: Training) -> dict[str, float]:
            times = {1e-4: too_small, 5e-4: too_large}.get(job.settings["learning_rate"], 1.0)
            return {"norms/weights": times * job.seed, "norms/gradient": 1.0, "norms/step": 1.0}

        exhibit = drawn("norms", lambda job: 1.0, seeds=2, metrics=metrics)
        assert (
            "rmsprop on CartPole-v1, batches of 64 to 1024: the largest norm of all weights at the end is 1.000 "
            in (exhibit.says)
        )
        return exhibit.says

    agrees, names = (
        says(0.5, 2.0),
        [f"a step size that is too {size} on CartPole-v1" for size in ("small", "large")],
    )
    assert (
        "with batches of 64 that norm is at a step size of 0.0001 0.500 [0.500, 0.500] times that at"
        in agrees
    )
    assert all(name in agrees for name in names) and DOES_NOT not in agrees
    assert f"This {DOES_NOT} for {names[0]} and {names[1]}." in says(2.0, 0.5)


def test_norms_draw_a_line_between_the_seeds() -> None:
    request, runs = Request("small", 2), []
    for job in EXPERIMENTS["norms"].jobs(request):
        assert isinstance(job, Training)
        run = FinishedRun(job, Path())
        rows = [{"step": step, "norms/weights/a.weight": 1.0 * job.seed} for step in (10, 20 + job.seed)]
        vars(run).update(summary={"steps": 30, "seconds": 1.0}, rows=rows, layers={"a.weight": 2})
        vars(run)["episodes"] = (np.array([30.0]), np.array([1.0]))
        runs.append(run)
    adam, rmsprop = EXPERIMENTS["norms"].draw(Results(request, runs, [], [])).drawings[1].figure.axes[:2]
    assert [[line.get_linestyle() for line in axes.lines] for axes in (adam, rmsprop)] == [
        ["-"] * 3,
        ["-"] * 3 + ["--"] * 2,
    ]
    line = adam.lines[0]
    assert np.asarray(line.get_ydata()) == pytest.approx(1.5)
    assert [float(np.asarray(line.get_xdata())[end]) for end in (0, -1)] == [10.0, 21.0]


def test_saturation_is_measured_against_the_root_of_a_half() -> None:
    def says(few: float, many: float) -> str:
        def metrics(job: Training) -> dict[str, float]:
            return {"train/gradient_cosine": (few if job.x == 16 else many) + 0.001 * job.seed}

        return drawn("saturation", lambda job: 1.0, metrics=metrics).says

    assert says(0.70, 0.95).endswith(
        f"This {AGREES} for 16 simulators on CartPole-v1 and 256 simulators on CartPole-v1."
    )
    assert f"{DOES_NOT} for 256 simulators" in says(0.70, 0.71) and f"{DOES_NOT} for 16 sim" in says(
        0.9, 0.95
    )


def test_precision_is_the_difference_of_iqms_and_of_speeds() -> None:
    def at(score: float, faster: float) -> Exhibit:
        def is_half(job: Training) -> bool:
            return job.settings["precision"] == "bf16"

        return drawn(
            "precision",
            lambda job: seeded(score if is_half(job) else 100, job),
            seeds=5,
            seconds=lambda job: (1.0 if is_half(job) else faster) * (1 + 0.001 * job.seed),
        )

    assert re.search(
        r"minus fp32 is -50\.\d \[-50\.\d, -49\.\d\] in the interquartile mean of scores", at(50, 1.2).says
    )
    assert at(50, 1.2).says.endswith(f"This {DOES_NOT}.") and at(100, 0.8).says.endswith(f"This {DOES_NOT}.")
    assert at(100, 1.2).says.endswith(f"This {AGREES}.")


def test_a_second_learner_with_a_large_batch_is_to_fail() -> None:
    def says(second: dict[str, float]) -> str:
        def scores(job: Training) -> dict[str, float]:
            return {
                "eval/ep_return_mean": 100.0,
                "second/ep_return_mean": second[job.group] + job.seed,
                "second/weights_norm": 1.0,
                "second/first_weights_norm": 1.0,
                "second/distance": 0.0,
            }

        return drawn("secondary-learner", lambda job: 0.0, metrics=scores).says

    pairs = ("first 64, second 2048", "first 2048, second 64", "first 256, second 256")
    good = says(dict(zip(pairs, (10.0, 100.0, 100.0), strict=True)))
    assert AGREES in good and DOES_NOT not in good and UNSEEN not in good
    assert f"{DOES_NOT} for 'CartPole-v1, first 64, second 2048'" in says(dict.fromkeys(pairs, 100.0))


def test_bundles_are_counted_in_words() -> None:
    exhibit = drawn("gorila-scaling", lambda job: seeded(100 if job.x == 1 else 50, job))
    assert (
        "1 bundle on CartPole-v1" in exhibit.says
        and "4 bundles on" in exhibit.says
        and DOES_NOT in exhibit.says
    )
    assert "1 bundles" not in " ".join(row[1] for row in exhibit.tables[0].rows)


def test_the_best_numbers_of_ga3c_differ_if_they_are_a_tenth_faster_with_all_seeds() -> None:
    def says(slower: float, noise: float = 0.001, seeds: int = 3) -> str:
        def seconds(job: Training) -> float:
            best = (4, 4) if job.settings.get("hidden") else (1, 1)
            is_best = (job.settings["predictors"], job.settings["trainers"]) == best
            return (1.0 if is_best else slower) * (1.0 + noise * (job.seed - 1) * (1 if is_best else -1))

        return drawn("ga3c-network", lambda job: 1.0, seeds=seeds, seconds=seconds, updates=100).says

    assert says(1.5).endswith(f"This {AGREES}.") and says(1.05).endswith(f"This {DOES_NOT}.")
    assert "cannot be seen here because the 95% interval over 3 seeds is too wide" in says(1.5, noise=0.15)
    assert f"{UNSEEN} one seed has no interval" in says(1.5, seeds=1)


def test_the_tuner_is_compared_with_the_best_fixed_numbers() -> None:
    def says(tuned: float) -> str:
        def seconds(job: Training) -> float:
            return tuned + 0.001 * job.seed if job.group == "tuned" else 1.0

        return drawn("ga3c-tuner", lambda job: 1.0, seconds=seconds, updates=100).says

    assert says(1.0).endswith(f"This {AGREES}.") and says(1.5).endswith(f"This {DOES_NOT}.")


def test_minatar_is_judged_by_the_iqm_over_games() -> None:
    published = {
        "asterix": (1.0, 0.7),
        "breakout": (8.3, 6.9),
        "freeway": (33.5, None),
        "seaquest": (0.9, 0.8),
    }

    def score(job: Training) -> float:
        dqn, actor_critic = published.get(job.chart, (27.9, 26.8))
        of = dqn if job.recipe in ("dqn", "c51", "rainbow", "apex-dqn") else actor_critic or 1.0
        return of * {"a2c": 0.5, "dqn": 2.0}.get(job.recipe, 1.0) * (1 + 0.01 * job.seed)

    exhibit = drawn("minatar", score, only=lambda job: job.recipe in ("a2c", "dqn"))
    over_games, by_game, _ = exhibit.tables
    shares = {row[0]: row[1:] for row in over_games.rows}
    assert shares["a2c"] == ("4", "0.510 [0.505, 0.515]") and shares["dqn"][0] == "5"
    assert f"This {DOES_NOT} for a2c." in exhibit.says and "dqn 2.040" in exhibit.says
    row = next(row for row in by_game.rows if row[:2] == ("freeway", "a2c"))
    assert row[4:] == ("–", "–")
    row = next(row for row in by_game.rows if row[:2] == ("breakout", "dqn"))
    assert row[4:] == ("8.3", "2.040 [2.020, 2.060]")


def test_a_mean_line_is_where_all_curves_are_and_a_single_one_has_no_interval() -> None:
    first, second = (
        (np.array([0.0, 10.0]), np.array([0.0, 10.0])),
        (np.array([5.0, 20.0]), np.array([7.0, 7.0])),
    )
    nothing = (np.empty(0), np.empty(0))
    x, y, low, high = mean_line([first, nothing, second])
    assert (x[0], x[-1]) == (5.0, 10.0) and y == pytest.approx((x + 7.0) / 2)
    bands = np.array([interval([value, 7.0]) for value in x])
    assert pytest.approx(bands) == np.stack([y, low, high]).T
    x, y, low, high = mean_line([second])
    assert (x[0], x[-1]) == (5.0, 20.0) and (y == 7.0).all() and np.isnan([low, high]).all()
    assert all(len(one) == 0 for one in mean_line([nothing]))
    apart = [(np.array([1.0, 2.0]), np.array([5.0, 5.0])), (np.array([3.0, 4.0]), np.array([9.0, 9.0]))]
    assert [len(part) for part in mean_line(apart)] == [0, 0, 0, 0], "no value of one beside one of the other"


def test_a_raw_score_is_the_inverse_of_a_normalised_one() -> None:
    for game in ("ALE/Breakout-v5", "ALE/VideoPinball-v5", "Pong"):
        for starts in ("no-op", "human"):
            assert human_normalised(raw_score(0.3, game, starts), game, starts) == pytest.approx(0.3)
