"""Searches: their trials are drawn, pruned, continued and never mixed up."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from small_searches import HOW, RATE, REQUEST, SMALL, SPACE, Stands

from screens import console, said_on
from veldt.cli import main
from veldt.errors import UsageError, VeldtError
from veldt.tuning import run as tuning
from veldt.tuning.run import tune
from veldt.tuning.search import Search
from veldt.tuning.space import choices
from veldt.tuning.study import Study


def test_a_search_trains_the_values_of_its_trials_and_its_page_has_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, screen = tmp_path / "out", console(300)
    page = tune(REQUEST, root, screen, trials=1, jobs=1, prunes=False)
    assert page == root / "tune.html"
    said = said_on(screen)
    assert "1 trial (1 done): the best is trial-000" in said
    assert "for seed in 2 3 4; do veldt train ppo --env CartPole-v1 --steps 512 --num-envs 4" in said
    study = Study(root / "study.db", SPACE, 1, prunes=True, side_by_side=False)
    (trial,) = study.trials()
    study.close()
    given = json.loads((root / "runs" / "trial-000" / "config.json").read_text())["given"]["learn"]
    assert given["learning_rate"] == trial.values["learning_rate"]
    assert {"tune.html", "trials.csv", "scores.png", "scores-by-setting.png", "curves.csv"} <= {
        file.name for file in root.iterdir()
    }
    html = page.read_text()
    assert "Train the best with other seeds" in html and "data:image/png;base64," in html

    (command,) = re.findall("<code>(veldt tune .*?)</code>", html)
    words = shlex.split(unescape(command))
    assert words[-5:] == ["--jobs", "1", "--no-prune", "--out", str(root)]
    main(words[1:])  # continues the same search
    printed = capsys.readouterr()
    assert "Nothing is left to do: the search has 1 trial, and --trials is 1." in printed.out + printed.err


def test_a_trial_that_was_killed_before_its_run_had_a_directory_is_run(
    stands: Stands, tmp_path: Path
) -> None:
    tune(stands, tmp_path, console(300), trials=1)
    study = Study(tmp_path / "study.db", SPACE, 1, prunes=True, side_by_side=False)
    killed = study.add(study.draw())
    study.close()
    screen = console(300)
    tune(stands, tmp_path, screen, trials=2)
    assert "trial-001 was interrupted, and is continued" in said_on(screen)
    assert "2 trials (2 done)" in said_on(screen)
    assert (
        f"--learning-rate {killed.values['learning_rate']}"
        in said_on(screen).partition("trial-001: score")[2]
    )


def test_the_best_trial_is_found_and_importances_are_shown(stands_with_page: Stands, tmp_path: Path) -> None:
    screen = console(300)
    tune(stands_with_page, tmp_path / "out", screen, trials=5, jobs=1)
    said = said_on(screen)
    assert "5 trials (5 done): the best is trial-004 with a score of 4" in said
    assert "Importances: " in said and (tmp_path / "out" / "importances.csv").exists()
    assert "Of 5 trials they are mostly chance: take 50 or more." in said
    assert "Of 5 trials they are mostly chance" in (tmp_path / "out" / "tune.html").read_text()


def test_a_trial_below_the_median_is_pruned_and_its_run_is_kept(stands: Stands, tmp_path: Path) -> None:
    HOW.update(dict.fromkeys(range(5), ("ends", 10.0)) | {5: ("waits", 1.0)})
    screen = console(300)
    tune(stands, tmp_path / "out", screen, trials=6, jobs=1)
    assert "trial-005: pruned at a score of 1.00, best 10.0" in said_on(screen)
    assert (tmp_path / "out" / "runs" / "trial-005" / "metrics.jsonl").exists()


def test_a_search_ends_when_half_of_its_last_trials_have_failed(stands: Stands, tmp_path: Path) -> None:
    HOW.update(dict.fromkeys((0, 3, 4, 5, 6), ("no env", 0.0)) | {1: ("training has diverged", 0.0)})
    screen = console(300)
    with pytest.raises(
        VeldtError, match="5 of the last 7 trials have failed, trial-006 because of this: no env; fix that"
    ):
        tune(stands, tmp_path / "out", screen, trials=9, jobs=1)
    assert "trial-001: failed: training has diverged" in said_on(screen)
    tune(stands, tmp_path / "out", screen, trials=8, jobs=1)
    assert "8 trials (2 done, 6 failed)" in said_on(screen)


def test_a_search_ends_early_where_no_trial_has_had_a_score(stands: Stands, tmp_path: Path) -> None:
    HOW.update(dict.fromkeys(range(3), ("has no score", 0.0)))
    with pytest.raises(
        VeldtError,
        match=r"3 of the last 3 trials have failed, .* no episode that counts for it ended in its steps",
    ):
        tune(stands, tmp_path / "out", console(300), trials=9, jobs=1)


def test_a_search_without_a_score_is_an_error(stands: Stands, tmp_path: Path) -> None:
    HOW[0] = ("has no score", 0.0)
    with pytest.raises(
        VeldtError, match=r"no trial is done and has a score \(trial-000: it has no score, because"
    ):
        tune(stands, tmp_path / "out", console(300), trials=1, jobs=1)
    assert (tmp_path / "out" / "tune.html").exists()


def test_no_combination_of_values_is_tried_twice(stands: Stands, tmp_path: Path) -> None:
    request = replace(stands, space={"gamma": choices(0.9, 0.99)})
    screen = console(300)
    tune(request, tmp_path / "out", screen, trials=5, jobs=1)
    assert "2 trials (2 done)" in said_on(screen) and "because no combination of values is left" in said_on(
        screen
    )
    assert "--gamma 0.9)" in said_on(screen) and "--gamma 0.99)" in said_on(screen)


def test_a_full_disk_stops_a_search_and_its_trial_is_continued(stands: Stands, tmp_path: Path) -> None:
    HOW[0] = ("cannot write it: the disk is full", 0.0)
    with pytest.raises(VeldtError, match=r"trial-000 was stopped: .* the disk is full; nothing is lost"):
        tune(stands, tmp_path / "out", console(300), trials=1)
    HOW.clear()
    screen = console(300)
    tune(stands, tmp_path / "out", screen, trials=1)
    assert "trial-000 was interrupted, and is continued" in said_on(screen) and "1 trial (1 done)" in said_on(
        screen
    )


def test_after_ctrl_c_trials_are_unfinished_and_there_is_a_page(
    stands: Stands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HOW[1] = ("waits", 1.0)

    report = Search._report_scores

    def interrupted(self: Search) -> None:
        report(self)
        if any(one.watch.score is not None for one in self._running if one.trial.number == 1):
            raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_report_scores", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        tune(stands, tmp_path / "out", console(300), trials=3, jobs=1)
    assert stopped.value.__notes__ == [
        "2 trials (1 unfinished, 1 done): the best is trial-000 with a score of 0; trial-001 was at a score of 1.00. "
        "One seed each, so train the best again with others. The same command continues."
    ]
    assert (tmp_path / "out" / "tune.html").exists()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"env": "Acrobot-v1"}, "with --env CartPole-v1, and Acrobot-v1 is asked now"),
        (
            {"recipe": "a2c", "settings": {"steps": 512}, "space": {"gamma": SPACE["gamma"]}},
            "with the recipe ppo",
        ),
        ({"settings": SMALL | {"steps": 1024}}, "with --steps 512, and 1024 is asked now"),
        ({"settings": SMALL | {"seed": 2}}, "with --seed 1, and 2 is asked now"),
        (
            {"space": {**SPACE, "gamma": choices(0.9, 0.98)}},
            "with --search gamma 0.9,0.99, and 0.9,0.98 is asked",
        ),
        ({"space": {"learning_rate": RATE}}, "with --search gamma 0.9,0.99, and none is asked now"),
    ],
)
def test_a_search_is_not_continued_as_another_one(
    other: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_searched", lambda *_: None)
    monkeypatch.setattr(tuning, "Study", lambda *_, **__: io.StringIO())
    tune(REQUEST, tmp_path / "out", console(300), trials=1)
    with pytest.raises(UsageError, match=said):
        tune(replace(REQUEST, **other), tmp_path / "out", console(300), trials=1)


def test_without_optuna_one_sentence_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=r"needs Optuna, which is not installed: pip install 'veldt\[tune\]'"
    ):
        tune(REQUEST, tmp_path / "out", console(300), trials=1)
    assert not (tmp_path / "out").exists()
