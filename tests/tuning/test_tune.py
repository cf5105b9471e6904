"""Searches: their trials are drawn, pruned, continued and never mixed up, and bad input is one sentence."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veldt.cli import main
from veldt.cli.verbs.search_space import read_space
from veldt.config.recipe_registry import plain_recipes
from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Training
from veldt.recipes import RECIPES, find
from veldt.tuning import run as tuning
from veldt.tuning.request import TuneRequest
from veldt.tuning.run import tune
from veldt.tuning.search import Search
from veldt.tuning.space import Choices, Interval, check_space, choices, default_space
from veldt.tuning.study import State, Study

RATE = Interval(1e-4, 1e-2, True, False)
SPACE = {"learning_rate": RATE, "gamma": choices(0.9, 0.99)}
TINY = {
    "steps": 512,
    "num_envs": 4,
    "batch_size": 64,
    "minibatches": 2,
    "epochs": 1,
    "hidden": (8,),
    "threads": 1,
    "log": "none",
    "log_every": 0.0,
    "env_backend": "in-process",
}
REQUEST = TuneRequest(recipe="ppo", env="CartPole-v1", settings=TINY, space=SPACE)

# What stands for a run: it has a score that depends on the trial, and ends, fails or waits as it is told.
RUN = """
import json, pathlib, sys, time
run, how, score = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
if how != "ends" and how != "waits":
    sys.exit(f"veldt: {how}")
run.mkdir(parents=True)
rows = [{"step": step, "rollout/ep_return_mean": score} for step in range(0, 513, 16)]
rows = rows[:-4] if how == "waits" else rows
(run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
if how == "waits":
    time.sleep(100)
(run / "summary.json").write_text(json.dumps({"reason": "steps", "steps": 512, "seconds": 1, "ep_return_mean": score}))
"""


class Stand(Training):
    """A training that `RUN` stands for; the environment's place holds how it ends."""

    def command(self, directory: Path) -> list[str]:
        return [sys.executable, "-c", RUN, str(directory), self.env, str(self.x)]


class Stands(TuneRequest):
    """A search whose trials are `RUN`; `how` of each trial by its number, "ends" for the others."""

    def training(self, name: str, values: Mapping[str, Any]) -> Training:
        number = int(name.removeprefix("trial-") or 0)
        env, score = HOW.get(number, ("ends", float(number)))
        return Stand(group=name, recipe="ppo", env=env, seed=1, settings=dict(values), x=score)


HOW: dict[int, tuple[str, float]] = {}


@pytest.fixture
def stands(monkeypatch: pytest.MonkeyPatch) -> Stands:
    monkeypatch.setattr(sys.modules[__name__], "HOW", {})
    return Stands(recipe="ppo", env="CartPole-v1", settings=TINY, space=SPACE)


def console() -> Console:
    return Console(file=io.StringIO(), width=300)


def said_on(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_search_trains_the_values_of_its_trials_and_its_page_has_its_command(tmp_path: Path) -> None:
    root, screen = tmp_path / "out", console()
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
    main(words[1:])  # continues the same search, in which nothing is left to do


def test_a_trial_that_was_killed_before_its_run_had_a_directory_is_run(
    stands: Stands, tmp_path: Path
) -> None:
    tune(stands, tmp_path, console(), trials=1)
    study = Study(tmp_path / "study.db", SPACE, 1, prunes=True, side_by_side=False)
    killed = study.ask()
    study.close()
    screen = console()
    tune(stands, tmp_path, screen, trials=2)
    assert "trial-001 was interrupted, and is continued" in said_on(screen)
    assert "2 trials (2 done)" in said_on(screen)
    assert (
        f"learning_rate={killed.values['learning_rate']}" in said_on(screen).partition("trial-001: score")[2]
    )


def test_the_best_trial_is_found_and_importances_are_shown(stands: Stands, tmp_path: Path) -> None:
    screen = console()
    tune(stands, tmp_path / "out", screen, trials=5, jobs=1)
    said = said_on(screen)
    assert "5 trials (5 done): the best is trial-004 with a score of 4" in said
    assert "Importances: " in said and (tmp_path / "out" / "importances.csv").exists()


def test_a_trial_below_the_median_is_pruned_and_its_run_is_kept(stands: Stands, tmp_path: Path) -> None:
    HOW.update(dict.fromkeys(range(5), ("ends", 10.0)) | {5: ("waits", 1.0)})
    screen = console()
    tune(stands, tmp_path / "out", screen, trials=6, jobs=1)
    assert "trial-005: pruned at a score of 1.00, best 10.0" in said_on(screen)
    assert (tmp_path / "out" / "runs" / "trial-005" / "metrics.jsonl").exists()


def test_failing_trials_do_not_end_a_search_unless_all_fail(stands: Stands, tmp_path: Path) -> None:
    HOW.update(
        {
            0: ("oh", 0.0),
            1: ("training has diverged", 0.0),
            3: ("oh", 0.0),
            4: ("oh", 0.0),
            5: ("no env", 0.0),
        }
    )
    screen = console()
    with pytest.raises(
        VeldtError, match="3 trials in a row have failed, trial-005 because of this: no env; mend it"
    ):
        tune(stands, tmp_path / "out", screen, trials=9, jobs=1)
    assert "trial-001: failed: training has diverged" in said_on(screen)
    tune(stands, tmp_path / "out", screen, trials=7, jobs=1)
    assert "7 trials (2 done, 5 failed)" in said_on(screen)


def test_a_full_disk_stops_a_search_and_its_trial_is_continued(stands: Stands, tmp_path: Path) -> None:
    HOW[0] = ("cannot write it: the disk is full", 0.0)
    with pytest.raises(VeldtError, match=r"trial-000 was stopped: .* the disk is full; nothing is lost"):
        tune(stands, tmp_path / "out", console(), trials=1)
    HOW.clear()
    screen = console()
    tune(stands, tmp_path / "out", screen, trials=1)
    assert "trial-000 was interrupted, and is continued" in said_on(screen) and "1 trial (1 done)" in said_on(
        screen
    )


def test_after_ctrl_c_trials_are_unfinished_and_there_is_a_page(
    stands: Stands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HOW[1] = ("waits", 1.0)

    def interrupted(self: Search) -> None:
        if any(one.run.exists() for one in self._running if one.trial.number == 1):
            raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_look", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        tune(stands, tmp_path / "out", console(), trials=3, jobs=1)
    assert stopped.value.__notes__ == [
        "2 trials (1 unfinished, 1 done): the best is trial-000 with a score of 0. One seed each, so train the best "
        "again with others. The same command continues."
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
        ({"settings": TINY | {"steps": 1024}}, "with --steps 512, and 1024 is asked now"),
        ({"settings": TINY | {"seed": 2}}, "with --seed 1, and 2 is asked now"),
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
    tune(REQUEST, tmp_path / "out", console(), trials=1)
    with pytest.raises(UsageError, match=said):
        tune(replace(REQUEST, **other), tmp_path / "out", console(), trials=1)


def test_a_damaged_study_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("no database " * 100)
    with pytest.raises(VeldtError, match=r"study\.db cannot be read or written"):
        Study(tmp_path / "study.db", SPACE, 1, prunes=True, side_by_side=False)


def test_without_optuna_one_sentence_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=r"needs Optuna, which is not installed: pip install 'veldt\[tune\]'"
    ):
        tune(REQUEST, tmp_path / "out", console(), trials=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("recipe", "env"),
    [
        *((name, "ALE/Pong-v5") for name in RECIPES),
        *((name, "CartPole-v1") for name in plain_recipes()),
    ],
)
def test_the_usual_space_of_every_recipe_is_valid(recipe: str, env: str) -> None:
    draft = find(recipe).draft(env)
    space = default_space(draft, {})
    check_space(draft, {}, space)
    assert {"learning_rate", "gamma"} <= space.keys()
    assert "gamma" not in default_space(draft, {"gamma": 0.9})


def test_the_search_flag_describes_a_space() -> None:
    words = [
        "learning_rate",
        "gamma=0.9,0.99",
        "--num-envs=log:4:64",
        "hidden=8x8,64",
        "shared=yes,no",
        "clip=uniform:0.1:0.3",
    ]
    space = read_space(find("ppo").draft("CartPole-v1"), {}, words)
    assert space == {
        "learning_rate": Interval(1e-5, 1e-2, True, False),
        "gamma": Choices({"0.9": 0.9, "0.99": 0.99}),
        "num_envs": Interval(4, 64, True, True),
        "hidden": Choices({"8x8": (8, 8), "64": (64,)}),
        "shared": Choices({"yes": True, "no": False}),
        "clip": Interval(0.1, 0.3, False, False),
    }


def test_a_drawn_number_is_short_and_in_its_interval() -> None:
    assert RATE.value(0.000123456789) == 0.00012346
    assert Interval(1.000001, 2.0, False, False).value(1.000001) == 1.000001


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tune", "which recipe? veldt tune RECIPE --env ENV --trials N"),
        ("tune ppo --trials 2", "--env is missing"),
        ("tune ppo --env CartPole-v1", "--trials is missing"),
        ("tune ppo --env CartPole-v1 --trials 0", "--trials is 0: it must be at least 1"),
        ("tune ppo --env CartPole-v1 --trials 1 --jobs 9999", "--jobs is 9999: it must be in [1, "),
        ("tune ppo --env CartPole-v1 --trials 1 --until 9", "--until would end the trials at the same score"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --run-dir x",
            "each trial has its own in the search's directory",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --cluster local", "--cluster is not for a search"),
        ("tune ppo --env CartPole-v1 --trials 1 --num-envs 0", "--num-envs is 0: it must be at least 1"),
        ("tune ppo --env CartPol-v1 --trials 1", "CartPole-v1"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --search gama=0.9,1",
            "no setting 'gama' (did you mean 'gamma'?)",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search n_step=1,2", "--n-step is none of ppo's settings"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --search steps=1,2",
            "the same for all trials; give it as --steps",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=0.9", "leaves nothing to search"),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=0.9,0.9", "a value is there twice"),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=0.9,x", "--gamma is 'x': it must be a number"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --search gamma=0.9,2",
            "--search gamma=0.9,2: --gamma is 2.0",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=log:0.9", "write it as log:1e-5:1e-2"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --search gamma=uniform:0.9:0.8",
            "must be less than the second",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=log:0:0.8", "must begin above 0"),
        ("tune ppo --env CartPole-v1 --trials 1 --search shared=log:1:2", "write it as log:1e-5:1e-2"),
        ("tune ppo --env CartPole-v1 --trials 1 --search shared=yes,2", "'2' must be yes or no"),
        ("tune ppo --env CartPole-v1 --trials 1 --search shared", "shared is not usually searched"),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma gamma=1,0.9", "--search names gamma twice"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --gamma 0.9 --search gamma",
            "--gamma is given, and --search gamma",
        ),
        (
            "tune ppo --env CartPole-v1 --trials 1 --gamma 1 --search gamma=1,0.9",
            "--gamma is given, and --search",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search no_ops=1,30", "is for Atari games"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2 and said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_refused_combination_of_values_is_a_failed_trial(stands: Stands, tmp_path: Path) -> None:
    request = replace(
        stands,
        settings=TINY | {"batch_size": 60},
        space={"minibatches": choices(2, 3), "gamma": SPACE["gamma"]},
    )
    study = Study(tmp_path / "study.db", request.space, 1, prunes=False, side_by_side=False)
    screen = console()
    trial = study.ask()
    bad = replace(trial, values={**trial.values, "minibatches": 7})
    search = Search(request, study, tmp_path / "runs", 1, tuning.Screen(screen))
    search._start(bad)
    assert study.trials()[0].state is State.FAILED and "minibatches" in study.trials()[0].why
