"""The parts of a search: what is drawn next, how runs are followed and shown, how many run side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_searches import REQUEST, SMALL, SPACE

from screens import console, said_on
from veldt.errors import UsageError, VeldtError
from veldt.tuning import draws as drawing
from veldt.tuning import jobs
from veldt.tuning import screen as showing
from veldt.tuning.draws import Draws
from veldt.tuning.request import TuneRequest
from veldt.tuning.scores import ScoreReader, ScoreWatch
from veldt.tuning.screen import RunningTrial
from veldt.tuning.space import Interval, choices
from veldt.tuning.study import PARTS, Study, Trial, TrialState


def drawn(request: TuneRequest, directory: Path) -> Draws:
    return Draws(request, Study(directory / "study.db", request.space, 1, prunes=False, side_by_side=False))


def test_refused_combinations_of_values_use_up_no_trial(tmp_path: Path) -> None:
    space = {"minibatches": Interval(2, 6, False, True), "batch_size": choices(64, 81)}
    draws = drawn(replace(REQUEST, settings={"steps": 512, "num_envs": 1}, space=space), tmp_path)
    trials = []
    while (trial := draws.next()) is not None:
        trials.append((trial.number, trial.values["batch_size"], trial.values["minibatches"]))
    assert [number for number, *_ in trials] == [0, 1, 2]
    assert {tuple(values) for _, *values in trials} == {(64, 2), (64, 4), (81, 3)}


def test_a_batch_that_does_not_divide_among_the_envs_is_no_trial(tmp_path: Path) -> None:
    space = {"batch_size": Interval(256, 300, False, True)}
    draws = drawn(replace(REQUEST, settings={"steps": 512, "minibatches": 1}, space=space), tmp_path)
    found = iter(draws.next, None)
    assert {trial.values["batch_size"] for trial in found if trial is not None} == {256, 288}  # for 32 envs


def test_a_space_that_is_refused_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(REQUEST, settings={**SMALL, "batch_size": 64}, space={"minibatches": choices(3, 5)})
    with pytest.raises(
        UsageError, match=r"no combination of values that is allowed, because of this: .*minibatches"
    ):
        drawn(request, tmp_path).next()
    monkeypatch.setattr(drawing, "_MOST_LISTED", 0)
    with pytest.raises(
        VeldtError, match="100 combinations of values in a row were tried before or are refused: "
    ):
        drawn(request, tmp_path).next()


def test_what_a_damaged_environment_failed_is_tried_again(tmp_path: Path) -> None:
    request = replace(REQUEST, space={"gamma": choices(0.9, 0.99)})
    study = Study(tmp_path / "study.db", request.space, 1, prunes=False, side_by_side=False)
    study.end(study.add({"gamma": "0.9"}), TrialState.FAILED, why="no env")
    study.end(study.add({"gamma": "0.99"}), TrialState.FAILED, why="training has diverged")
    draws = Draws(request, study)
    assert (again := draws.next()) is not None
    assert again.values == {"gamma": 0.9} and draws.next() is None


def test_a_run_is_followed_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    watch = ScoreWatch(path, "score", 200)
    assert watch.new_scores() == {} and watch.share == 0
    path.write_text('{"step": 5}\n{"step": 20, "score": 1.0}\n{"step": 35, "sc')
    assert watch.new_scores() == {2: 1.0} and (watch.share, watch.score) == (0.1, 1.0)
    with path.open("a") as file:
        file.write('ore": 2.0}\n{"step": 36, "score": "NaN"}\n{"step": 50, "score": 3.0}\n')
    assert watch.new_scores() == {3: 1.0, 4: 2.0, 5: 3.0} and watch.score == 3.0
    (tmp_path / "new").write_text('{"step": 20, "score": 1.0}\n{"step": 60, "score": 4.0}\n')
    (tmp_path / "new").replace(path)  # as when a run is resumed from an earlier checkpoint
    assert watch.new_scores() == {6: 4.0} and watch.share == 0.3


def test_a_trial_with_evaluations_is_followed_and_scored_by_them(tmp_path: Path) -> None:
    rows = [
        {"step": 100, "rollout/ep_return_mean": 9.0},
        {"step": 200, "rollout/ep_return_mean": 9.0, "eval/ep_return_mean": 1.0},
        {"step": 400, "rollout/ep_return_mean": 9.0, "eval/ep_return_mean": 2.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "summary.json").write_text('{"ep_return_mean": 9.0}')
    run = REQUEST.fixed.config.run
    evaluated = ScoreReader(replace(run, steps=400, evaluate_every=200))
    assert evaluated.final(tmp_path) == 2.0
    scores = evaluated.watch(tmp_path).new_scores()  # by these it is pruned
    assert scores[PARTS // 2] == 1.0 and scores[PARTS] == 2.0 and PARTS // 4 not in scores
    trained = ScoreReader(replace(run, steps=400, evaluate_every=0))
    assert trained.final(tmp_path) == 9.0 and set(trained.watch(tmp_path).new_scores().values()) == {9.0}


def test_without_a_terminal_running_trials_have_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_LINES_S", 0.0)
    trial, other = Trial(0, {}, TrialState.UNFINISHED), Trial(1, {}, TrialState.UNFINISHED)
    output = console(300)
    showing.SearchScreen(output).show(
        [RunningTrial(trial, 0.4, 1.0, 12.0, False), RunningTrial(other, 0.0, 1.0, None, False)]
    )
    lines = ["trial-000: 40% of its steps, score 12.0", "trial-001: 0% of its steps, no score yet"]
    assert said_on(output).splitlines() == lines


def test_the_number_of_jobs_depends_on_cores_memory_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "allowed_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(jobs, "available_memory", lambda: 2**31)
    cpu = {"device": "cpu"}
    assert jobs.choose_jobs(replace(REQUEST, settings=SMALL | cpu))[0] == 4
    large = TuneRequest(
        recipe="dqn",
        env="CartPole-v1",
        settings={"buffer_size": 20_000_000, **cpu},
        space={"gamma": SPACE["gamma"]},
    )
    number, why = jobs.choose_jobs(large)
    assert number == 1 and why.startswith("One trial at a time, since each needs about")
    assert jobs.choose_jobs(replace(large, recipe="apex-dqn", settings={}))[0] == 1


def test_a_damaged_study_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("no database " * 100)
    with pytest.raises(VeldtError, match=r"study\.db cannot be read or written"):
        Study(tmp_path / "study.db", SPACE, 1, prunes=True, side_by_side=False)
