"""Runs with the user's own actor, critic, model and recurrent core: by callable and by name, resumed and loaded."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import own_parts
import veldt
from run_state import SMALL, assert_same_run, newest
from veldt.envs.spec import EnvSpec
from veldt.networks.own import OwnParts

SETTINGS = {name: value for name, value in SMALL.items() if name != "hidden"} | {
    "env_backend": "in-process",
    "quiet": True,
}
DDPG = {
    "env": "Pendulum-v1",
    "num_envs": 2,
    "steps": 600,
    "batch_size": 16,
    "learning_starts": 200,
    "training_intensity": 4.0,
    "buffer_size": 2000,
    "checkpoint_every": 200,
    "env_backend": "in-process",
    "threads": 1,
    "device": "cpu",
    "quiet": True,
}
PPO = {"env": "CartPole-v1", "steps": 320} | SETTINGS
A2C = PPO | {"num_envs": 4, "checkpoint_every": 160, "shared": True}
for name in ("batch_size", "epochs", "minibatches", "anneal_clip"):
    A2C.pop(name, None)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ppo": ("ppo", {"actor": own_parts.actor, "critic": own_parts.critic}, PPO),
    "ppo-model": ("ppo", {"model": own_parts.Whole}, PPO),
    "ddpg": ("ddpg", {"actor": own_parts.deterministic_actor, "critic": own_parts.ActionCritic}, DDPG),
    "a2c-core": ("a2c", {"core": own_parts.GRU}, A2C),
    "a2c-model": ("a2c", {"model": own_parts.RecurrentWhole}, A2C),
}


@pytest.mark.parametrize("case", CASES)
def test_by_callable_by_name_resumed_and_loaded(case: str, tmp_path: Path) -> None:
    recipe, parts, settings = CASES[case]
    names = {part: f"own_parts:{own.__name__}" for part, own in parts.items()}
    whole = veldt.train(recipe, run_dir=tmp_path / "whole", **settings, **parts)
    config = json.loads((whole.path / "config.json").read_text())
    assert {part: config["resolved"]["network"][part] for part in parts} == names
    named = veldt.train(recipe, run_dir=tmp_path / "named", **settings, **names)
    assert_same_run(whole.path, named.path)
    checkpoints = sorted((named.path / "checkpoints").glob("step-*"))
    assert len(checkpoints) > 1
    for file in checkpoints[-1].iterdir():
        file.unlink()
    checkpoints[-1].rmdir()
    veldt.resume(named.path, quiet=True)
    assert_same_run(whole.path, named.path)
    shapes = {name: array.shape for name, array in newest(whole.path).groups["weights"].items()}
    assert any(name.split(".")[0] in parts for name in shapes), shapes
    assert len(veldt.evaluate(veldt.load(whole.path), episodes=2, greedy=True).scores) == 2


def test_resume_requires_a_closure_to_be_passed_again(tmp_path: Path) -> None:
    width = 9

    def closure(spec: EnvSpec) -> nn.Module:
        return nn.Sequential(nn.Linear(4, width), nn.Linear(width, 2))

    run = veldt.train(
        "ppo", env="CartPole-v1", steps=128, run_dir=tmp_path / "run", actor=closure, **SETTINGS
    )
    with pytest.raises(
        veldt.UsageError, match=r"the run's actor .* pass it again, load\(run, actor=\.\.\.\)"
    ):
        veldt.load(run.path)
    assert veldt.load(run.path, actor=closure).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    assert len(veldt.evaluate(run.path, episodes=1, actor=closure).scores) == 1
    assert len(veldt.record_starts(run.path, starts=1, actor=closure)) == 1
    with pytest.raises(veldt.UsageError, match="an agent has its environment and its network already"):
        veldt.evaluate(veldt.load(run.path, actor=closure), critic=closure)


@pytest.mark.parametrize("use", [veldt.load, veldt.evaluate, veldt.record_starts])
def test_what_uses_a_policy_takes_every_part_of_a_network(use: Callable[..., Any]) -> None:
    assert {part.name for part in dataclasses.fields(OwnParts)} <= set(inspect.signature(use).parameters)


def test_code_of_a_foreign_run_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code must be named or trusted, or the user must have trained with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "foreign_actor.py").write_text("from own_parts import actor\n")
    run = veldt.train("ppo", run_dir=tmp_path / "run", actor="foreign_actor:actor", **PPO)
    veldt.load(run.path)
    config = json.loads((run.path / "config.json").read_text())
    config["resolved"]["network"]["actor"] = "evil_actor:actor"
    (run.path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil_actor.py").write_text("raise SystemExit('imported')\n")
    with pytest.raises(
        veldt.UsageError,
        match=r"names the actor evil_actor:actor, imported from .*evil_actor\.py: this is",
    ):
        veldt.load(run.path)
    assert veldt.load(run.path, actor="foreign_actor:actor").act([0.0, 0.1, 0.0, 0.1]) in (0, 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"actor": 3}, "actor is 3: it must be a name, 'module:function' or a callable from a spec"),
        ({"actor": "own_parts:acter"}, "no actor 'own_parts:acter': .*did you mean 'actor'"),
        ({"critic": "own_parts:actor"}, r"critic own_parts:actor returned float32 \[2, 2\]"),
    ],
)
def test_wrong_parts_are_refused(settings: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError, match=sentence):
        veldt.train("ppo", env="CartPole-v1", steps=128, run_dir=tmp_path / "run", **SETTINGS, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.alone
def test_impala_actors_get_a_core_that_is_not_importable(tmp_path: Path) -> None:
    """A class of a function is known in no other process."""

    class Local(own_parts.GRU):
        pass

    run = veldt.train(
        "impala",
        env="CartPole-v1",
        core=Local,
        shared=True,
        run_dir=tmp_path / "run",
        steps=2000,
        num_envs=4,
        actors=2,
        evaluator_share=0.0,
        quiet=True,
    )
    assert run.reason == "steps"
    agent = veldt.load(run.path, core=Local)
    assert len(veldt.evaluate(agent, episodes=2).scores) == 2
