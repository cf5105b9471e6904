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
        ("ppo", {"env_backend": "atari"}, "--env-backend atari is for Atari games, and CartPole-v1 is none"),
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
