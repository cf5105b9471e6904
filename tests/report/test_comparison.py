"""A report of several runs: scores with their intervals, curves of the episode log, and links to the runs' reports."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.cli import main
from veldt.errors import UsageError, VeldtError
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Request, Training
from veldt.experiments.results import FinishedRun
from veldt.report import write_report
from veldt.report.aggregates import methods_on_all
from veldt.report.curves import STEPS, TITLES, time_axis
from veldt.report.data import RunData
from veldt.report.groups import by_environment, grouped
from veldt.report.returns import centre_and_interval
from veldt.report.scores import scores_of
from veldt.report.speed import CHARTS
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeLog
from veldt.tracking.loggers.metrics_file import MetricsFile
from veldt.tracking.metric_names import METRICS


def make_run(
    root: Path,
    name: str,
    returns: list[float] | None = None,
    *,
    seed: int = 1,
    recipe: str = "ppo",
    env: str = "CartPole-v1",
    given: dict[str, Any] | None = None,
    until: float | None = None,
    seconds: float = 3.0,
    finished: bool = True,
) -> RunDirectory:
    """A run whose episodes are ten steps long and have these returns; its only row is at its end."""
    returns = [] if returns is None else returns
    run = RunDirectory.create(root, name)
    settings = {"recipe": recipe, "algorithm": recipe, "env": env}
    end = max(1, 10 * len(returns))
    run.write_config(
        given or {}, {**settings, "run": {"steps": end, "seed": seed, "until": until}}, ["veldt"], {}
    )
    log = EpisodeLog(run.path)
    for i, score in enumerate(returns):
        actions = np.zeros(10, np.uint8)
        log.append(env=0, episode=i, seed=i, step=10 * (i + 1), length=10 + i, score=score, actions=actions)
    log.close()
    mean = {"ep_return_mean": float(np.mean(returns[-100:]))} if returns else {}
    metrics = MetricsFile(run.path)
    row = {f"rollout/{key}": value for key, value in mean.items()}
    metrics.log(end, {"seconds": seconds, "rollout/episodes": len(returns), **row})
    metrics.close()
    if finished:
        run.write_summary(
            {**settings, "seed": seed, "reason": "steps", "steps": end, "seconds": seconds, **mean}
        )
    return run


def loaded(*runs: RunDirectory) -> list[RunData]:
    return [RunData.load(run.path) for run in runs]


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the first table after the heading `title`."""
    table = page[page.index(title) :].partition("</table>")[0]
    return [
        [
            html.unescape(re.sub(r"<[^>]*>", "", cell))
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    ]


def page_of(tmp_path: Path, *runs: RunDirectory, score: float | None = None) -> str:
    return write_report([run.path for run in runs], tmp_path / "report.html", score).read_text()


def test_scores_have_intervals_and_a_single_run_has_none(tmp_path: Path) -> None:
    seeds = [make_run(tmp_path, f"a-{i}", [value], seed=i) for i, value in enumerate((10.0, 20.0, 60.0))]
    page = page_of(tmp_path, *seeds, make_run(tmp_path, "b", [40.0], recipe="a2c"))
    head, ppo, a2c = rows(page, "<h2>Scores</h2>")
    assert head == ["", "Runs", "Mean", "Median", "IQM"]
    assert ppo == ["ppo", "3", "30.0 [10.0, 60.0]", "20.0 [10.0, 60.0]", "30.0 [10.0, 60.0]"]
    assert a2c == ["a2c", "1", "40.0", "40.0", "40.0"]
    assert "Probability of improvement" not in page, "a single run says nothing about another run"


def test_one_run_has_no_section_on_scores(tmp_path: Path) -> None:
    assert "<h2>Scores</h2>" not in page_of(tmp_path, make_run(tmp_path, "a", [1.0, 2.0]))


def test_a_run_by_two_names_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0, 2.0])
    names = [run.path, run.path.parent / "." / ".." / run.path.parent.name / run.path.name]
    assert "<h2>Scores</h2>" not in write_report(names, tmp_path / "report.html").read_text()


def test_groups_of_several_runs_are_compared(tmp_path: Path) -> None:
    better = [make_run(tmp_path, f"a-{seed}", [30.0 + seed], seed=seed) for seed in (1, 2)]
    worse = [make_run(tmp_path, f"b-{seed}", [30.0 - seed], seed=seed, recipe="a2c") for seed in (1, 2)]
    _, ppo, a2c = rows(page_of(tmp_path, *better, *worse), "Probability of improvement")
    assert ppo == ["ppo", "–", "100% [100%, 100%]"]
    assert a2c == ["a2c", "0% [0%, 0%]", "–"]


def test_runs_without_a_score_or_an_end_are_counted(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, "a", [1.0], seed=1),
        make_run(tmp_path, "b", [3.0], seed=2, finished=False),
        make_run(tmp_path, "c", seed=3, finished=False),
    ]
    assert rows(page_of(tmp_path, *runs), "<h2>Scores</h2>")[1][1] == "2 of 3, 1 unfinished"
    (group,) = grouped(loaded(*runs))
    np.testing.assert_array_equal(scores_of(group), [1.0, 3.0])
    nothing = [make_run(tmp_path, f"none-{seed}", seed=seed) for seed in (1, 2)]
    assert rows(page_of(tmp_path, *nothing), "<h2>Scores</h2>")[1][1:] == ["0 of 2", "–", "–", "–"]


def test_steps_and_time_to_a_score(tmp_path: Path) -> None:
    # The mean of 100 is 50 when half of the window is 100: after 150 episodes and after 170.
    fast = make_run(tmp_path, "a", [0.0] * 100 + [100.0] * 100, seed=1, seconds=2.0)
    slow = make_run(tmp_path, "b", [0.0] * 120 + [100.0] * 80, seed=2, seconds=4.0)
    assert [run.steps_to(50.0) for run in loaded(fast, slow)] == [1500, 1700]
    head, ppo = rows(page_of(tmp_path, fast, slow, score=50.0), "<h2>Scores</h2>")
    assert head[-2:] == ["Steps to 50", "Time to 50"]
    assert ppo[-2:] == ["1.6k [1.5k, 1.7k]", "2.5s [1.5s, 3.4s]"]
    never = rows(page_of(tmp_path, fast, slow, score=90.0), "<h2>Scores</h2>")[1]
    assert never[-2:] == ["1 of 2 reached it", "–"]


def test_a_score_needs_100_episodes(tmp_path: Path) -> None:
    (run,) = loaded(make_run(tmp_path, "a", [500.0] * 99))
    assert run.steps_to(475.0) is None


def test_the_target_is_that_of_the_runs(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"a-{seed}", [50.0] * 120, seed=seed, until=50.0) for seed in (1, 2)]
    assert "Steps to 50" in rows(page_of(tmp_path, *runs), "<h2>Scores</h2>")[0]
    other = make_run(tmp_path, "b", [50.0] * 120, recipe="a2c", until=40.0)
    assert len(rows(page_of(tmp_path, *runs, other), "<h2>Scores</h2>")[0]) == 5


def test_a_score_for_several_environments_is_refused(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "a", [1.0]), make_run(tmp_path, "b", [1.0], env="Acrobot-v1")]
    with pytest.raises(UsageError, match="--score is 475, but the runs are on 2 environments"):
        page_of(tmp_path, *runs, score=475.0)
    with pytest.raises(UsageError, match="--score is nan: it must be a finite number"):
        page_of(tmp_path, runs[0], score=float("nan"))


def test_score_is_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path, f"a-{seed}", [50.0] * 120, seed=seed) for seed in (1, 2)]
    main(["report", *(str(run.path) for run in runs), "--score", "30"])
    assert "Steps to 30" in Path(capsys.readouterr().out.strip()).read_text()


def test_a_run_of_seconds_has_a_curve(tmp_path: Path) -> None:
    (run,) = loaded(make_run(tmp_path, "a", [float(i) for i in range(200)], seconds=2.0))
    assert len(run.rows) == 1
    x, y = run.mean_returns()
    np.testing.assert_array_equal(x, 10 * np.arange(1, 201))
    np.testing.assert_allclose(y[[0, 99, 199]], [0.0, np.mean(range(100)), np.mean(range(100, 200))])
    np.testing.assert_allclose(run.mean_lengths()[1][:2], [10.0, 10.5])
    axis = time_axis(by_environment([run])[0])
    assert axis.label == "seconds"
    np.testing.assert_allclose(axis.over_steps(run, (x, y))[0][[0, -1]], [0.01, 2.0])
    np.testing.assert_array_equal(STEPS.over_steps(run, (x, y))[0], x)


def test_episodes_of_one_rollout_are_one_point(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    log = EpisodeLog(run.path)
    for episode, (step, score) in enumerate(((100, 1.0), (100, 3.0), (200, 5.0))):
        log.append(
            env=0, episode=episode, seed=1, step=step, length=9, score=score, actions=np.zeros(9, np.uint8)
        )
    log.close()
    x, y = loaded(run)[0].mean_returns()
    np.testing.assert_array_equal(x, [100, 200])
    np.testing.assert_allclose(y, [2.0, 3.0])


def test_episodes_that_do_not_count_are_in_no_curve_and_no_time_to_a_score(tmp_path: Path) -> None:
    """As those of Ape-X's actors with a large ε: the score of a run is the mean return of the others."""
    run = make_run(tmp_path, "a", [50.0] * 100)
    log = EpisodeLog(run.path)
    for episode in range(100):
        zeros = np.zeros(5, np.uint8)
        log.append(env=1, episode=episode, seed=1, step=5, length=5, score=0.0, actions=zeros, counts=False)
    log.close()
    (data,) = loaded(run)
    assert set(data.mean_returns()[1]) == {50.0} == set(data.single_returns()[1])
    assert data.steps_to(50.0) == 1000
    job = EXPERIMENTS["epsilons"].jobs(Request("small", 1, ("CartPole-v1",)))[0]
    assert isinstance(job, Training)
    finished = FinishedRun(job, run.path)
    assert len(finished.episodes[0]) == 100 and finished.score == 50.0


def test_rows_continue_a_log_that_ends_before_them(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0, 2.0], finished=False)
    metrics = MetricsFile(run.path)
    metrics.log(500, {"seconds": 9.0, "rollout/ep_return_mean": 7.0, "rollout/episodes": 150})
    metrics.close()
    (data,) = loaded(run)
    np.testing.assert_allclose(data.mean_returns(), ([10, 20, 500], [1.0, 1.5, 7.0]))
    assert data.steps_to(7.0) == 500


def test_damaged_lines_of_the_log_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0, 2.0, 3.0])
    path = run.path / "episodes.jsonl"
    first, second, third = path.read_text().splitlines()
    huge = second.replace("2.0", "1e308")
    nothing = second.replace("2.0", '"NaN"')
    path.write_text(
        "\n".join((first, "\x00\x00", '{"step": "x"}', huge, huge, nothing, third, '{"env": 0, "epi'))
    )
    np.testing.assert_allclose(loaded(run)[0].mean_returns(), ([10, 30], [1.0, 2.0]))
    page_of(tmp_path, run)


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0])
    (run.path / "episodes.jsonl").unlink()
    (run.path / "episodes.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"episodes\.jsonl cannot be read"):
        page_of(tmp_path, run)


def test_a_damaged_run_among_several_is_named_with_what_to_do(tmp_path: Path) -> None:
    """It is not left out by itself: its scores would be missing from all statistics."""
    runs = [make_run(tmp_path, name, [1.0]) for name in ("a", "b", "c")]
    damaged = runs[1].path
    (damaged / "summary.json").write_text('{"steps": ')
    page_of(tmp_path, runs[0], runs[2])
    said = re.escape(f"; leave {damaged} out to report the other runs")
    with pytest.raises(VeldtError, match=rf"b/summary\.json cannot be read: .*{said}$"):
        page_of(tmp_path, *runs)


def test_the_centre_of_four_runs_is_the_interquartile_mean() -> None:
    values = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, 1.0], [100.0, 1.0]])
    centre, low, high = centre_and_interval(values)
    np.testing.assert_allclose(centre, [2.0, 1.0])
    assert low[0] < 2.0 < high[0] and (low[1], high[1]) == (1.0, 1.0)
    np.testing.assert_allclose(centre_and_interval(values[:3])[0], [4 / 3, 1.0])


def test_a_seed_without_an_episode_does_not_hide_the_others(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"a-{seed}", [1.0, 2.0, 3.0], seed=seed) for seed in (1, 2)]
    page = page_of(tmp_path, *runs, make_run(tmp_path, "c", seed=3, finished=False))
    assert "PolyCollection" in page, "the interval of the two others is shaded"


def test_every_chart_is_of_a_metric_that_exists() -> None:
    assert set(TITLES) - set(METRICS) == set()
    assert set(CHARTS) - set(TITLES) == set()


def test_settings_that_differ_name_the_groups(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, f"{rate}-{seed}", [1.0], seed=seed, given={"learn": {"learning_rate": rate}})
        for rate in (0.1, 0.2)
        for seed in (1, 2)
    ]
    labels = [group.label for group in grouped(loaded(*runs))]
    assert labels == [f"ppo on CartPole-v1 · learning_rate {rate} (2 seeds)" for rate in (0.1, 0.2)]


def test_runs_have_links_to_their_own_reports(tmp_path: Path) -> None:
    names = ("a", "b #?&", "c")
    runs = [make_run(tmp_path / "runs", name, [1.0], seed=i) for i, name in enumerate(names)]
    for run in runs[:2]:
        write_report([run.path], run.report_path)
    (tmp_path / "out").mkdir()
    page = write_report([run.path for run in runs], tmp_path / "out/all.html").read_text()
    assert re.findall(r'href="(\.[^"]*)"', page) == [
        "./../runs/a/report.html",
        "./../runs/b%20%23%3F%26/report.html",
    ]
    own = write_report([run.path for run in runs], runs[0].report_path).read_text()
    assert re.findall(r'href="(\.[^"]*)"', own) == ["./../b%20%23%3F%26/report.html"], "not to itself"
    page = write_report([run.path for run in runs], tmp_path / "out/all.html").read_text()
    assert re.findall(r'href="(\.[^"]*)"', page) == ["./../runs/b%20%23%3F%26/report.html"], (
        "that is not a's own"
    )


def on_games(tmp_path: Path, recipe: str, **scores: list[float]) -> list[RunDirectory]:
    return [
        make_run(tmp_path, f"{recipe}-{game}-{seed}", [score], seed=seed, recipe=recipe, env=f"ALE/{game}-v5")
        for game, values in scores.items()
        for seed, score in enumerate(values)
    ]


def test_games_have_normalised_aggregates(tmp_path: Path) -> None:
    # Breakout: random 1.7, human 30.5; Pong: random -20.7, human 14.6.
    runs = on_games(tmp_path, "ppo", Breakout=[30.5, 59.3], Pong=[14.6, -20.7])
    page = page_of(tmp_path, *runs)
    _, ppo = rows(page, "<h2>Over 2 environments</h2>")
    assert [cell.partition(" [")[0] for cell in ppo] == ["ppo", "2 × 2", "1.00", "1.00", "1.00", "0.25"]
    assert "Performance profiles" in page
    assert rows(page, "<h2>Scores</h2>")[0][-1] == "Human-normalised mean"


def test_a_method_with_unequal_runs_is_left_out_by_name(tmp_path: Path) -> None:
    runs = on_games(tmp_path, "ppo", Breakout=[1.0, 2.0], Pong=[1.0])
    runs += on_games(tmp_path, "a2c", Breakout=[1.0])
    methods, left_out = methods_on_all(by_environment(loaded(*runs)))
    assert methods == []
    assert left_out == [
        "ppo is left out: it needs as many scores on each environment, and has 2 on ALE/Breakout-v5, 1 on ALE/Pong-v5.",
        "a2c is left out: it has no run on ALE/Pong-v5.",
    ]


def test_environments_without_human_scores_have_no_aggregates(tmp_path: Path) -> None:
    envs = ("CartPole-v1", "ALE/Pong-v5")
    runs = [
        make_run(tmp_path, f"{recipe}-{i}-{seed}", [score], seed=seed, recipe=recipe, env=env)
        for i, env in enumerate(envs)
        for recipe, score in (("ppo", 2.0), ("a2c", 1.0))
        for seed in (1, 2)
    ]
    page = page_of(tmp_path, *runs)
    assert "there are no published human and random scores of CartPole-v1, and raw returns" in page
    assert "Performance profiles" not in page
    # Which is better in each needs no common scale.
    assert rows(page, "<h2>Over 2 environments</h2>")[1] == ["ppo", "–", "100% [100%, 100%]"]
