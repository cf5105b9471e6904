"""What an experiment refuses before it trains, and how games may be named."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from screens import console, said_on
from small_experiments import experiment, printed, training
from veldt.cli import main
from veldt.errors import UsageError
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.catalogue.minatar import MINATAR
from veldt.experiments.experiment import Request, Training
from veldt.experiments.planning.games import env_of_game, resolved
from veldt.experiments.run import run_experiment
from veldt.experiments.workspace import Workspace
from veldt.recipes import Recipe, register_recipe


@pytest.mark.parametrize(
    ("name", "env"),
    [
        *((name, "ALE/Pong-v5") for name in ("Pong", "pong", "ALE/Pong-v5", "PongNoFrameskip-v4")),
        ("space_invaders", "ALE/SpaceInvaders-v5"),
        ("CartPole-v1", "CartPole-v1"),
        ("Blackjack-v1", "Blackjack-v1"),  # there is an Atari game of that name
        ("own_parts:MODULE", None),
    ],
)
def test_games_have_any_spelling(name: str, env: str | None) -> None:
    if env is None:
        with pytest.raises(UsageError, match="no environment 'own_parts:MODULE'"):
            env_of_game(name)
    else:
        assert env_of_game(name) == env


def test_games_are_named_once() -> None:
    assert resolved(["Pong", "pong", "ALE/Pong-v5", "Breakout"], env_of_game) == (
        "ALE/Pong-v5",
        "ALE/Breakout-v5",
    )
    assert resolved(["Space_Invaders", "seaquest"], MINATAR.env_of) == (
        "space_invaders",
        "seaquest",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("batches --games Pnog", "--games has 'Pnog', which is not an Atari game (did you mean 'Pong'?)"),
        ("batches --games CartPol-v1", "no environment 'CartPol-v1' (did you mean 'CartPole-v1'?)"),
        ("batches --games nosuch:env", "there is no module 'nosuch'"),
        ("minatar --games Pong", "--games has 'Pong', which is not a game of MinAtar: known are asterix,"),
        (
            "batches --games CartPole-v1 Pendulum-v1",
            "dqn on Pendulum-v1 cannot begin: dqn cannot choose this environment's actions, which are continuous",
        ),
        (
            "secondary-learner --games Pendulum-v1",
            "dqn cannot choose this environment's actions, which are continuous",
        ),
        (
            "scores --games CartPole-v1",
            "--games has 'CartPole-v1', which is not an Atari game, and this experiment",
        ),
        ("scores --recipes ppp", "no recipe 'ppp' (did you mean 'ppo'?)"),
        ("scores --games Pong --recipes ddpg", "ddpg on ALE/Pong-v5 cannot begin: ddpg"),
        (
            "norms --recipes ppo",
            "--recipes has no effect: norms trains its own recipes; leave it out (scores and minatar take others)",
        ),
        (
            "minutes --scale paper --games CartPole-v1",
            "and this experiment has at --scale paper a paper's values",
        ),
        ("throughput --games Pendulum-v1", "--games has 'Pendulum-v1', which is not an Atari game, and this"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_made(
    words: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["experiment", *words.split()])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert said in err and len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_environment_is_refused_before_anything_is_made_where_it_cannot_be_made(tmp_path: Path) -> None:
    def fails() -> gymnasium.Env[Any, Any]:
        raise RuntimeError("no licence")

    gymnasium.register("Fails-v0", fails)
    try:
        mine, request = experiment([training(env="Fails-v0")]), Request("small", 1)
        with pytest.raises(Exception, match="no licence"):
            run_experiment(mine, request, tmp_path / "out", console())
        # Before that, which takes seconds: whether another process works there.
        begun = Workspace(tmp_path / "busy", mine, request)
        begun.open()
        with pytest.raises(UsageError, match="another veldt experiment works in"):
            run_experiment(mine, request, begun.root, console())
        begun.close()
        begun.discard_unless_begun()
    finally:
        del gymnasium.registry["Fails-v0"]
    assert not list(tmp_path.iterdir())


def test_games_without_a_human_score_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 10.0))
    screen = console()
    request = Request("small", 1, ("ALE/Pong-v5", "ALE/Blackjack-v5"))
    run_experiment(EXPERIMENTS["scores"], request, tmp_path / "out", screen, plan_only=True)
    assert "No human score is published of ALE/Blackjack-v5: the raw scores are shown alone." in said_on(
        screen
    )


def test_recipes_in_place_of_the_experiments_own_have_a_row_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is continued with the same ones alone; a plug-in's recipe is named with its plug-in."""
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 1_000.0))
    scores, root = EXPERIMENTS["scores"], tmp_path / "out"
    request = Request("small", 1, ("ALE/Pong-v5",), ("impala", "ppo"))
    screen = console()
    run_experiment(scores, request, root, screen, plan_only=True)
    lines = [" ".join(line.split()) for line in said_on(screen).splitlines()]
    assert (
        "impala ALE/Pong-v5 1 1 500k all 1,000 0.14" in lines
        and "ppo ALE/Pong-v5 1 1 500k 1 1,000 0.14" in lines
    )
    without = Request("small", 1, ("ALE/Pong-v5",))
    for asked, made in ((request, "with --recipes impala ppo"), (without, "without --recipes")):
        workspace = Workspace(root / str(len(asked.recipes)), scores, asked)
        workspace.open()
        workspace.begin()
        workspace.close()
        other = Workspace(workspace.root, scores, Request("small", 1, ("ALE/Pong-v5",), ("a2c",)))
        with pytest.raises(UsageError, match=f"was made {made}, and a2c is asked now: continue"):
            other.open()
    register_recipe(Recipe("mine", "ppo", "synchronous", summary="mine", atari={}, small={}))
    job = MINATAR.jobs(Request("paper", 1, ("breakout",), ("mine",)))[0]
    assert isinstance(job, Training) and job.cores == 1
    assert job.command(tmp_path)[-2:] == ["--plugin", __name__]


def test_a_budget_that_is_too_small_leaves_nothing(tmp_path: Path) -> None:
    mine, request = experiment([printed("late", "print('{}')")]), Request("small", 1)
    for root in (tmp_path / "new" / "deep", tmp_path / "planned"):
        if root.name == "planned":
            run_experiment(mine, request, root, console(), plan_only=True)
        with pytest.raises(UsageError, match=r"--budget 0.0001 hours is too small for one run"):
            run_experiment(mine, request, root, console(), budget_hours=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["planned"]


def test_a_budget_of_seconds_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[object] = []
    monkeypatch.setattr(
        "veldt.experiments.run.measure_speeds",
        lambda *given: measured.append(given) or defaultdict(lambda: 1_000.0),
    )
    mine, request = experiment([training(settings={"steps": 36_000_000})]), Request("paper", 1)
    with pytest.raises(UsageError, match=r"^--budget 0.01 hours .* which takes at least 0.011 hours here$"):
        run_experiment(mine, request, tmp_path / "out", console(), budget_hours=0.01)
    assert not measured and not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match=r"^--budget 1 hours .* which takes about 10 hours here$"):
        run_experiment(mine, request, tmp_path / "out", console(), budget_hours=1.0)
    assert measured
