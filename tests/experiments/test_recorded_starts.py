"""Files of recorded starts for an experiment: which are taken, what is refused, and when it may be continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import veldt
from screens import console, said_on
from small_experiments import experiment, training
from starts_files import BREAKOUT, PONG, starts_in, write
from tiny_runs import TINY
from veldt.cli import main
from veldt.errors import UsageError
from veldt.experiments.experiment import Evaluation, Request, Training, with_evaluations
from veldt.experiments.planning import checks
from veldt.experiments.planning.checks import check_starts
from veldt.experiments.recorded_starts import file_name_of, with_starts
from veldt.experiments.run import run_experiment
from veldt.experiments.workspace import Workspace


def test_each_game_has_the_file_of_its_name(tmp_path: Path) -> None:
    """In any spelling; files of other games, and other files, are left alone."""
    for name, env in (("space_invaders", "ALE/SpaceInvaders-v5"), ("Pong", PONG), ("Breakout", BREAKOUT)):
        write(tmp_path, f"{name}.safetensors", env)
    (tmp_path / "notes.txt").write_text("mine")
    found = starts_in(tmp_path, "ALE/SpaceInvaders-v5", PONG, "ALE/Qbert-v5")
    assert [(one.env, one.path.name) for one in found] == [
        ("ALE/SpaceInvaders-v5", "space_invaders.safetensors"),
        (PONG, "Pong.safetensors"),
    ]
    assert file_name_of("ALE/SpaceInvaders-v5") == "SpaceInvaders.safetensors"


@pytest.mark.parametrize(
    ("made", "said"),
    [(made, made) for made in ("person", "agent")] + [("", ""), ("a parrot", "")],
)
def test_who_recorded_starts_is_what_the_file_says(tmp_path: Path, made: str, said: str) -> None:
    write(tmp_path, by=made)
    (one,) = starts_in(tmp_path, PONG)
    assert one.by == said and one.steps == 2 * 2 * 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "norms --starts starts",
            "--starts has no effect: norms evaluates no run from recorded starts; leave it out",
        ),
        (
            "scores --starts nowhere",
            "--starts nowhere: there is no such directory; name one with a file of starts",
        ),
        (
            "scores --starts starts/Pong.safetensors",
            "is a file: name a directory with a file of",
        ),
        (
            "scores --games Qbert --starts starts",
            "--starts starts has no file of starts for a game of the experiment (Qbert.safetensors; it has Boxing"
            ".safetensors, Pong.safetensors, Tennis.safetensors): record some by `veldt record-starts` with --out",
        ),
        ("scores --starts empty", "(Pong.safetensors or 1 other; it has no *.safetensors at all)"),
        (
            "scores --starts twice",
            "has two files of starts for ALE/Pong-v5, Pong.safetensors and pong.safetensors:",
        ),
        (
            "scores --games Boxing --starts starts",
            "starts/Boxing.safetensors has starts of ALE/Breakout-v5, and its name is that of a file for ALE/Box",
        ),
        (
            "scores --games Tennis --starts starts",
            "Tennis.safetensors is not a file of starts, or it is damaged",
        ),
        (
            "scores --games Pong --starts sticky",
            "was recorded with --sticky-actions 0.25, and the run has 0.0: the same actions lead to another point",
        ),
        (
            "scores --games Pong --starts action",
            "has actions that ALE/Pong-v5 does not take: the environment has",
        ),
    ],
)
def test_starts_that_cannot_be_used_are_refused_before_anything_is_made(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path()
    write(here / "starts")
    write(here / "starts", "Boxing.safetensors", BREAKOUT)
    (here / "starts" / "Tennis.safetensors").write_text("love all")
    (here / "empty").mkdir()
    for name in ("Pong.safetensors", "pong.safetensors"):
        write(here / "twice", name)
    write(here / "sticky", sticky_actions=0.25)
    write(here / "action", action=17)
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    with pytest.raises(SystemExit) as stopped:
        main(["experiment", *words.split()])
    err = capsys.readouterr().err
    assert stopped.value.code == 2 and said in err and len(err.strip().splitlines()) == 1, err
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


def test_starts_are_checked_once_for_runs_that_differ_in_their_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed: list[str] = []
    probe = checks.probe_spec
    monkeypatch.setattr(
        checks, "probe_spec", lambda source, atari: probed.append(source.name) or probe(source, atari)
    )
    for name, env in (("Pong", PONG), ("Breakout", BREAKOUT)):
        write(tmp_path, f"{name}.safetensors", env)
    trainings = [
        training(recipe=recipe, env=env, seed=seed)
        for recipe in ("ppo", "a2c")
        for env in (PONG, BREAKOUT)
        for seed in (1, 2)
    ]
    request = Request("small", 2, starts=starts_in(tmp_path, PONG, BREAKOUT))
    check_starts(with_evaluations(trainings, request))
    assert probed == [PONG, BREAKOUT]


def begun(root: Path, request: Request) -> None:
    workspace = Workspace(root, experiment([]), request)
    workspace.open()
    workspace.begin()
    workspace.close()


def test_an_experiment_is_continued_with_the_same_starts_or_more(tmp_path: Path) -> None:
    """What is in the files counts, not where they are."""
    root = tmp_path / "out"
    write(tmp_path / "one")
    write(tmp_path / "two")
    write(tmp_path / "two", "Breakout.safetensors", BREAKOUT)
    plain, one, two = (
        Request("small", 1, starts=starts)
        for starts in ((), starts_in(tmp_path / "one", PONG), starts_in(tmp_path / "two", PONG, BREAKOUT))
    )
    for request in (plain, one, one, two, two):
        begun(root, request)
        noted = json.loads((root / "experiment.json").read_bytes()).get("starts", {})
        assert noted == {each.env: each.checksum for each in request.starts}
    checksum = two.starts[0].checksum
    for request in (plain, one):
        gone = two.starts[len(request.starts)]
        said = (
            rf"was made with --starts and, for {gone.env}, a file with the checksum {gone.checksum}, and none is asked "
            "now: continue it with the same"
        )
        with pytest.raises(UsageError, match=said):
            begun(root, request)
    write(tmp_path / "two", number=3)
    other = Request("small", 1, starts=starts_in(tmp_path / "two", PONG, BREAKOUT))
    with pytest.raises(
        UsageError, match=f"a file with the checksum {checksum}, and {other.starts[0].checksum} is"
    ):
        begun(root, other)


def test_starts_that_are_given_later_only_add_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Training(group="g", recipe="ppo", env=PONG, seed=1, settings={"steps": 9})
    mine = experiment([], jobs_of=lambda request: with_evaluations([done], request))
    root, screen = tmp_path / "out", console()
    write(tmp_path / "starts")
    begun(root, Request("small", 1))
    (root / "runs" / done.name).mkdir(parents=True)
    (root / "runs" / done.name / "summary.json").write_text('{"reason": "steps"}')
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: {})
    request = Request("small", 1, starts=starts_in(tmp_path / "starts", PONG))
    run_experiment(mine, request, root, screen, plan_only=True)
    assert "mine: 2 runs, 1 done, 1 to do" in said_on(screen)
    assert "starts" not in json.loads((root / "experiment.json").read_bytes())  # a plan alone decides nothing


@pytest.mark.long
@pytest.mark.timeout(400)
def test_runs_are_trained_and_then_evaluated_from_starts_that_were_recorded(tmp_path: Path) -> None:
    """By the real commands; the starts are given to the experiment when its run is done."""
    settings: dict[str, Any] = {**TINY, "max_episode_steps": 60}
    del settings["hidden"]
    veldt.train("ppo", env=PONG, seed=5, run_dir=tmp_path / "player", quiet=True, **settings)
    (tmp_path / "starts").mkdir()
    veldt.record_starts(tmp_path / "player", starts=3, out=tmp_path / "starts" / "Pong.safetensors")
    job = training(env=PONG, settings=settings)
    mine = experiment([], jobs_of=lambda asked: with_evaluations([job], asked))
    request, root = Request("small", 1), tmp_path / "out"
    run_experiment(mine, request, root, console())
    trained = (root / "runs" / job.name / "summary.json").stat().st_mtime_ns
    request, screen = with_starts(mine, request, tmp_path / "starts"), console()
    page = run_experiment(mine, request, root, screen)
    assert "mine: 2 runs, 1 done, 1 to do" in said_on(screen)
    assert (root / "runs" / job.name / "summary.json").stat().st_mtime_ns == trained
    assert page is not None and f"--starts {tmp_path / 'starts'} --out" in page.read_text()
    (_, evaluation) = jobs = with_evaluations([job], request)
    assert isinstance(evaluation, Evaluation) and evaluation.starts.by == "agent"
    (one,) = Workspace(root, mine, request).results(jobs).evaluated
    expected = veldt.evaluate(root / "runs" / job.name, starts=tmp_path / "starts" / "Pong.safetensors")
    assert one.score == expected.mean and one.values["scores"] == list(expected.scores)
    run_experiment(mine, request, root, screen := console())
    assert "mine: 2 runs, 2 done" in said_on(screen)
