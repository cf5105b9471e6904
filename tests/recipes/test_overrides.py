"""Settings that a user gives are recorded as given, and never ignored."""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veldt
from environments import Scripted, image_rows_columns_channels
from veldt.cli import main
from veldt.cli.verbs.training import _outcome
from veldt.config.plan_digest import plan_digest
from veldt.errors import UsageError
from veldt.recipes import find
from veldt.recipes.overrides import build_config, with_settings
from veldt.report.data import RunData
from veldt.runs.episodes import EpisodeLog

QUICK = {"steps": 64, "num_envs": 4, "batch_size": 64, "minibatches": 2, "env_backend": "in-process"}
FLAGS = "--steps 64 --num-envs 4 --batch-size 64 --minibatches 2 --env-backend in-process"


def given(run: Path) -> Any:
    return json.loads((run / "config.json").read_text())["given"]


def test_only_given_settings_are_recorded_as_given(in_tmp: Path) -> None:
    expected = {
        "env": "CartPole-v1",
        "env_kwargs": {},
        "run": {"steps": 64, "seed": 1},
        "learn": {"batch_size": 64, "minibatches": 2},
        "envs": {"num_envs": 4, "env_backend": "in-process"},
        "network": {"hidden": [8]},
    }
    veldt.train("ppo", env="CartPole-v1", run_dir="python", quiet=True, seed=1, hidden=(8,), **QUICK)
    assert given(Path("python")) == expected
    main(f"train ppo --env CartPole-v1 --run-dir flags --seed 1 --hidden 8 {FLAGS}".split())
    assert given(Path("flags")) == expected
    # The report colours these and no others.
    coloured = RunData.load(Path("flags")).given()
    assert "run.seed" in coloured and "run.device" not in coloured and "learn.clip" not in coloured


def test_a_list_in_the_place_of_a_tuple_makes_the_same_run() -> None:
    draft = find("ppo").draft("CartPole-v1")
    config, of_list = (build_config(draft, {"hidden": hidden}) for hidden in ((64, 32), [64, 32]))
    assert of_list == config and of_list.network.hidden == (64, 32)
    assert with_settings(config, {"hidden": [64, 32]}) == config
    assert plan_digest(of_list) == plan_digest(config)


def test_a_given_network_is_used(tmp_path: Path) -> None:
    veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, network="mlp", **QUICK)
    assert given(tmp_path / "run")["network"] == {"network": "mlp"}


@pytest.mark.parametrize("network", ["a3c", None])
def test_layers_for_a_network_without_any(network: str | None, tmp_path: Path) -> None:
    image = functools.partial(image_rows_columns_channels)
    with pytest.raises(veldt.UsageError, match="--hidden is 8, and no part of this network is an MLP"):
        veldt.train("ppo", env=image, run_dir=tmp_path / "run", network=network, hidden=(8,), **QUICK)
    with pytest.raises(veldt.UsageError, match="--layer-norm is on, and no part of this network is an MLP"):
        veldt.train("ppo", env=image, run_dir=tmp_path / "run", network=network, layer_norm=True, **QUICK)
    assert not (tmp_path / "run").exists()


def test_keyword_arguments_that_are_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError, match="cannot be written into the run as JSON"):
        veldt.train(
            "ppo", env=Scripted, env_kwargs={"script": {(3, "terminated")}}, run_dir=tmp_path / "run", **QUICK
        )
    assert not (tmp_path / "run").exists()


def test_a_score_that_was_not_reached_is_printed(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(f"train ppo --env CartPole-v1 --run-dir run --until 475 {FLAGS}".split())
    printed = capsys.readouterr().out
    assert (
        "run finished its steps without reaching 475: " in printed
        and "of fewer than 100 episodes " in printed
    )
    recording = "--checkpoint-every 32 --keep-checkpoints 1 --log-every 0"
    main(f"resume run --until none --steps 300 {recording}".split())
    assert "run finished its steps: " in capsys.readouterr().out
    assert len(list(Path("run/checkpoints").iterdir())) == 1


def test_a_run_without_a_mean_return_says_whether_other_episodes_finished(tmp_path: Path) -> None:
    """Those of envs that explore much do not count, nor do any in training where an evaluator plays."""
    summary = {"ep_return_mean": None, "episodes": 0, "steps": 10, "seconds": 1.0}
    run: Any = SimpleNamespace(path=tmp_path, summary=summary, until=None, reason="steps")
    assert _outcome(run).endswith("finished its steps: 10 steps in 1.0 s, no episode finished")
    log = EpisodeLog(tmp_path)
    for episode in range(2):
        given = {"env": 3, "seed": 1, "step": 4, "length": 2, "score": 1.0}
        log.append(episode=episode, actions=np.zeros(2, np.int64), prefix=0, counts=False, **given)
    log.close()
    assert _outcome(run).endswith(", no episode that counts for the mean return finished (2 others did)")


def test_more_threads_than_cores_are_a_warning(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = (os.cpu_count() or 1) + 1
    main(f"train ppo --env CartPole-v1 --threads {threads} {FLAGS}".split())
    assert f"--threads is {threads}, and " in capsys.readouterr().err


def test_the_public_names_are_listed() -> None:
    """The names are listed although they are imported only when they are used."""
    assert set(dir(veldt)) == {*veldt.__all__, "__version__"}
    assert all(getattr(veldt, name) for name in dir(veldt))


@pytest.mark.parametrize(
    ("recipe", "setting", "recipes"),
    [
        (
            "a2c",
            "buffer_size",
            "dqn, async-dqn, c51, rainbow, gorila, apex-dqn for discrete actions; "
            "ddpg, apex-ddpg for continuous actions",
        ),
        ("dqn", "actors", "gorila, apex-dqn, impala; apex-ddpg for continuous actions"),
        ("ddpg", "clip", "ppo, appo"),
    ],
)
def test_advice_says_for_which_actions_a_recipe_is(recipe: str, setting: str, recipes: str) -> None:
    """A recipe that is named may not fit an environment that the chosen one fits."""
    with pytest.raises(
        UsageError, match=re.escape(f"take a recipe that has it ({recipes}), or leave it out")
    ):
        build_config(find(recipe).draft("CartPole-v1"), {setting: 1})


def test_advice_about_a_system_says_for_which_actions_an_algorithm_is() -> None:
    with pytest.raises(
        UsageError, match="; take one of dqn, c51, rainbow for discrete actions; ddpg for cont"
    ):
        find("apex-dqn").draft("CartPole-v1", "ppo")
