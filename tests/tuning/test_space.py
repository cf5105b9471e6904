"""What is searched: the usual space of each recipe, and the words of --search; bad input is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_searches import RATE

from veldt.cli import main
from veldt.cli.verbs.search_space import read_space
from veldt.config.recipe_registry import plain_recipes
from veldt.recipes import RECIPES, find
from veldt.tuning.space import Choices, Interval, check_space, default_space


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
        "batch_size=uniform:256:512:100",
        "ent_coef=uniform:0:0.3:0.1",
    ]
    space = read_space(find("ppo").draft("CartPole-v1"), {}, words)
    assert space == {
        "learning_rate": Interval(1e-5, 1e-2, True, False),
        "gamma": Choices({"0.9": 0.9, "0.99": 0.99}),
        "num_envs": Interval(4, 64, True, True),
        "hidden": Choices({"8x8": (8, 8), "64": (64,)}),
        "shared": Choices({"yes": True, "no": False}),
        "clip": Interval(0.1, 0.3, False, False),
        "batch_size": Interval(256, 456, False, True, 100),
        "ent_coef": Interval(0, 0.3, False, False, 0.1),
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
        (
            "tune ppo --env CartPole-v1 --trials 1 --search learning_rate=1e-3..1e-2",
            "write learning_rate=log:1e-3:1e-2 or learning_rate=uniform:1e-3:1e-2",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search gamma=[0.9:1]", "write gamma=log:0.9:1 or"),
        (
            "tune ppo --env CartPole-v1 --trials 1 --search epochs=log:1:9:2",
            "a logarithmic range has no step",
        ),
        ("tune ppo --env CartPole-v1 --trials 1 --search epochs=uniform:1:9:0", "the step must be above 0"),
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
