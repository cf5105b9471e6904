"""Results of experiments are copied to their page with their tables, machines and the settings of their runs."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from screens import console
from small_experiments import experiment
from tiny_runs import TINY
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, Table, learning_curves
from veldt.experiments.results import Results
from veldt.experiments.run import run_experiment

sys.path.append(str(Path(__file__).parents[2] / "docs"))
try:
    adopt, adopted, run_settings = (
        importlib.import_module(f"generate.{name}") for name in ("adopt", "adopted", "run_settings")
    )
finally:
    sys.path.pop()

TABLES = [
    Table("Scores of all", ("run", "score|"), [("a_b", "<1*")], "In points."),
    Table("Many", ("n",), [(str(row),) for row in range(13)]),
    Table("Too many", ("n",), [(str(row),) for row in range(121)]),
]


def tiny(request: Request) -> list[Training]:
    return [
        Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=seed, settings=TINY)
        for seed in request.seed_range
    ]


def draw(results: Results) -> Exhibit:
    return Exhibit("It says that.", [learning_curves(results)], TABLES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Path]:
    mine = dataclasses.replace(experiment([], jobs_of=tiny), draw=draw)
    root = tmp_path_factory.mktemp("finished") / "out"
    run_experiment(mine, Request("small", 2), root, console())
    return mine, root


@pytest.fixture
def known(finished: tuple[Experiment, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Experiment, Path]:
    monkeypatch.setitem(EXPERIMENTS, "mine", finished[0])  # type: ignore[index]
    return finished


def test_a_directory_is_adopted_in_the_place_of_an_earlier_one(
    known: tuple[Experiment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, root = known
    for name in ("mine-old.png", "mine-old.csv", "other-old.png"):
        (tmp_path / name).touch()
    adopt.adopt(root, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("mine.txt", "mine.json", "mine-learning-curves.png", "mine-scores-of-all.csv", "mine-many.csv"),
        "other-old.png",
    }
    assert "the table 'Too many' is left out, which has 121 rows" in capsys.readouterr().out
    shown = adopted.Adopted.of(mine, tmp_path)
    config = json.loads((root / "runs" / "cartpole-v1-ppo-1" / "config.json").read_text())
    assert config["hardware"]["processor"] in shown.made_by() and "torch " in shown.made_by()
    assert shown.made_by().startswith("Made by `veldt experiment mine --seeds 2` on ")
    assert shown.changed() == "" and shown.differs() == "All."
    scores, many = shown.tables(tmp_path)
    assert scores.split("\n") == [
        *("**Scores of all**", "", r"| run | score\| |", "| --- | --- |", r"| a\_b | &lt;1\* |", ""),
        "In points.",
    ]
    assert many.startswith('<details markdown="1">\n<summary>Many (13 rows)</summary>\n\n| n |\n')
    picture, caption = shown.figures()
    assert "mine-learning-curves.png" in picture and caption.startswith("Mean raw return over 2 seeds")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"learning_rate": 0.5, "num_envs": 2}, "Values of `--num-envs`, `--learning-rate` in its runs"),
        ({"precision": "bf16"}, "Values of `--precision` in its runs have changed since: the same command"),
        ({"log_every": 7.0, "checkpoint_every": 9}, ""),
    ],
)
def test_settings_that_are_others_now_are_named(
    known: tuple[Experiment, Path], tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    mine, root = known
    adopt.adopt(root, tmp_path)

    def others(request: Request) -> list[Training]:
        return [dataclasses.replace(job, settings={**job.settings, **changed}) for job in tiny(request)]

    now = adopted.Adopted.of(dataclasses.replace(mine, jobs=others), tmp_path).changed()
    assert now.startswith(said) and bool(now) == bool(said)


def test_other_runs_are_said(known: tuple[Experiment, Path], tmp_path: Path) -> None:
    mine, root = known
    adopt.adopt(root, tmp_path)

    def others(request: Request) -> list[Training]:
        return [dataclasses.replace(job, group="more") for job in tiny(request)]

    now = adopted.Adopted.of(dataclasses.replace(mine, jobs=others), tmp_path).changed()
    assert now == "The experiment has other runs since: the same command may show something else now."


def test_a_directory_without_a_finished_experiment_is_refused(
    known: tuple[Experiment, Path], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match=r"has no experiment\.json: name the directory of an experiment"):
        adopt.adopt(tmp_path, tmp_path)
    asked = json.loads((known[1] / "experiment.json").read_text())
    (tmp_path / "experiment.json").write_text(json.dumps(asked))
    with pytest.raises(
        SystemExit, match=r"is not finished \(cartpole-v1-ppo-1 is not done\): give its command"
    ):
        adopt.adopt(tmp_path, tmp_path)


def test_the_number_of_cores_for_which_runs_were_made_is_recognised(
    known: tuple[Experiment, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment may have other runs on a machine with more cores."""
    mine, root = known

    def of_cores(request: Request) -> list[Training]:
        number = len(adopt.allowed_cores())
        return [
            dataclasses.replace(job, group=f"{job.group}{'s' * (number - recorded)}") for job in tiny(request)
        ]

    config = json.loads((root / "runs" / "cartpole-v1-ppo-1" / "config.json").read_text())
    recorded = config["hardware"]["machine_cores"]
    monkeypatch.setitem(EXPERIMENTS, "mine", dataclasses.replace(mine, jobs=of_cores))  # type: ignore[index]
    with run_settings.with_cores(recorded + 3):
        adopt.adopt(root, tmp_path)
    assert json.loads((tmp_path / "mine.json").read_text())["cores"] == recorded


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_settings_of_every_experiment_can_be_compared(name: str) -> None:
    jobs = EXPERIMENTS[name].jobs(Request("small", 1))
    assert run_settings.changes(jobs, run_settings.digests(jobs, run_settings.resolved_now)) == ""
