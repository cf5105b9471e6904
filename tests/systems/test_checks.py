"""What is known to be impossible is refused before anything is measured, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import veldt
from run_state import SMALL
from veldt.errors import UsageError
from veldt.systems import run


def failing(progress: float) -> float:
    raise RuntimeError("no schedule")


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("ppo", {"max_restarts": 3}, "--max-restarts would have no effect"),
        ("ppo", {"cluster": "local"}, "--cluster is 'local', and ppo cannot run there"),
        ("ga3c", {"cluster": "local"}, "--cluster is 'local', and ga3c cannot run there"),
        ("ppo", {"learning_rate": failing}, "schedule .* failed at progress 0: RuntimeError: no schedule"),
        ("ppo", {"loggers": [5]}, "loggers has 5, which has no method log"),
        ("ppo", {"frame_skip": 2}, "--frame-skip is for Atari games"),
        (
            "ppo",
            {"env_backend": "atari"},
            "--env-backend atari is for Atari games, and CartPole-v1 is not one",
        ),
    ],
)
def test_before_anything_is_measured(
    recipe: str, settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "make_run_plan", lambda request: pytest.fail("the machine was measured"))
    with pytest.raises(UsageError, match=message):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("dqn", {"buffer_size": 10**13}, "--buffer-size is 10,000,000,000,000 and needs"),
        ("ppo", {"hidden": (8,), "network": "veldt_no_mlp:linear"}, "no part of this network is an MLP"),
        ("dqn", {"compress_frames": True}, "--compress-frames is for images"),
    ],
)
def test_before_anything_is_written(
    recipe: str, settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "veldt_no_mlp.py").write_text(
        "from torch import nn\ndef linear(shape): return nn.Linear(shape[0], 8)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=message):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = veldt.train(
        "ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **SMALL | {"steps": 64}
    )
    before = (first.path / "config.json").read_text()
    monkeypatch.setattr(run, "make_run_plan", lambda request: pytest.fail("the machine was measured"))
    with pytest.raises(UsageError, match="--cluster is 'local', and ppo cannot run there"):
        veldt.resume(first.path, cluster="local", steps=128, quiet=True)
    assert (first.path / "config.json").read_text() == before


def test_a_run_shorter_than_a_rollout_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = SMALL | {"steps": 10}
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    assert run.summary["steps"] > 10
    assert "--steps is 10, and a rollout has up to 64 (4 envs x 16, less resets)" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_resumed_run_shows_the_warnings_that_still_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SMALL | {"steps": 10, "learning_rate": 0.5, "anneal_learning_rate": False}
    first = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    capsys.readouterr()
    before: list[Any] = []
    check = run.check_plan
    monkeypatch.setattr(
        run, "check_plan", lambda *arguments: before.append(arguments[2]) or check(*arguments)
    )
    veldt.resume(first.path, steps=128)
    shown = " ".join(capsys.readouterr().err.split())
    assert "--learning-rate is 0.5: an update then moves" in shown
    assert "--steps is" not in shown
    assert before[0].items() >= settings.items() - {("steps", 10)} - {("hidden", (16,))}


def test_the_graph_of_one_process_is_checked_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise UsageError("these parts do not fit together")

    monkeypatch.setattr("veldt.systems.synchronous.graph.synchronous", refuse)
    monkeypatch.setattr(
        "veldt.api.training.new_directory", lambda *_, **__: pytest.fail("a directory was made")
    )
    with pytest.raises(UsageError, match="these parts do not fit together"):
        veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **SMALL)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("a2c", {"horizon": 10**15}),
        ("ppo", {"batch_size": 10**15}),
        ("impala", {"horizon": 10**15, "actors": 1}),
        ("impala", {"num_envs": 10**15, "actors": 1}),
    ],
)
def test_an_update_that_fits_into_no_memory_is_refused(
    recipe: str, settings: dict[str, Any], in_tmp: Path
) -> None:
    said = r"an update learns from [\d,]+ steps at once, whose observations need [\d,]+ GiB, and .* are available"
    with pytest.raises(UsageError, match=said):
        veldt.train(recipe, env="CartPole-v1", device="cpu", quiet=True, **settings)
    assert not Path("runs").exists()
