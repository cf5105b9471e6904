"""Settings that are a number or a schedule: their meaning, refused values, and schedule functions of foreign runs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, assert_same_run
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.schedule_settings import make_schedule
from veldt.cli.arguments import CommandLine
from veldt.config.stored_config import from_dict, to_dict
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.setting_metadata import Range, Unit

DISCRETE = ActionSpec("discrete", sizes=(2,), start=(0,))
BOX = ActionSpec("box", low=(-1.0,), high=(1.0,))
AT = (0.0, 0.25, 0.999)
SETTINGS = {name: value for name, value in SMALL.items() if not name.startswith("anneal")} | {
    "env": "CartPole-v1",
    "steps": 320,
    "env_backend": "in-process",
    "quiet": True,
}


def halved(progress: float) -> float:
    return 0.5 * (1.0 - progress)


def negative(progress: float) -> float:
    return 0.5 - progress


def undefined(progress: float) -> float:
    return math.nan


def forgotten(progress: float) -> None:
    """Returns nothing."""


def endless(progress: float) -> float:
    return 1e-3 / progress if progress else math.inf


def broken(progress: float) -> float:
    return 1.0 / (1.0 - progress)


def test_annealing_equals_a_linear_schedule_to_zero_bit_for_bit() -> None:
    falling = PPO(
        PPOConfig(learning_rate=7e-4, anneal_learning_rate=True, clip=0.3, anneal_clip=True), DISCRETE
    )
    text = PPO(PPOConfig(learning_rate="linear:7e-4:0", clip="linear:0.3:0"), DISCRETE)
    for progress in np.linspace(0.0, 1.0, 101):
        assert (
            falling.learning_rate(progress, 1) == 7e-4 * (1.0 - progress) == text.learning_rate(progress, 1)
        )
        assert falling._clip(progress) == 0.3 * (1.0 - progress) == text._clip(progress)
    assert PPO(PPOConfig(learning_rate=7e-4), DISCRETE).learning_rate(0.7, 1) == 7e-4


def test_learning_rates() -> None:
    name = f"{__name__}:halved"
    assert [A2C(A2CConfig(learning_rate=name), DISCRETE).learning_rate(p, 80) for p in AT] == [
        halved(p) for p in AT
    ]
    dqn = DQN(DQNConfig(learning_rate="cosine:1e-3:1e-4", batch_size=512), DISCRETE)
    assert [dqn.learning_rate(p, 1) for p in (0.0, 1.0)] == pytest.approx([3e-3, 3e-4])
    ddpg = DDPG(DDPGConfig(learning_rate=1e-3, actor_learning_rate="linear:1e-3:1e-4"), BOX)
    rates = {group.name: group.learning_rate and group.learning_rate(0.5) for group in ddpg.groups}
    assert rates == {"actor": pytest.approx(5.5e-4), "critic": None}
    assert DQNConfig(learning_rate="linear:1e-3:0", batch_size=512).derived(1, False)[-2][:3] == (
        "scaled learning rate",
        "linear:1e-3:0 x 3",
        "per update",
    )


def test_epsilon_follows_the_run() -> None:
    algorithm = with_settings(
        find("dqn").config("CartPole-v1"), {"epsilon": "piecewise:0=1.0,0.1=0.1,1=0.01", "steps": 1000}
    ).make_algorithm(DISCRETE)
    assert isinstance(algorithm, DQN)
    assert [
        algorithm.exploration(steps)["rollout/epsilon"] for steps in (0, 50, 100, 1000, 9999)
    ] == pytest.approx([1.0, 0.55, 0.1, 0.01, 0.01])
    drawn = torch.rand(20_000, 1, 2, generator=torch.Generator().manual_seed(0))
    assert float((algorithm.prepare_noise(drawn, 50)[..., 0] >= 0).float().mean()) == pytest.approx(
        0.55, abs=0.01
    )
    assert not (algorithm.prepare_noise(drawn, None)[..., 0] >= 0).any(), "evaluation has its own"


@pytest.mark.parametrize(
    ("cls", "settings", "sentence"),
    [
        (PPOConfig, {"learning_rate": 0.0}, "--learning-rate is 0.0: it must be more than 0"),
        (
            PPOConfig,
            {"learning_rate": "linear:1e-3"},
            "is 'linear:1e-3': linear takes a start and an end",
        ),
        (
            PPOConfig,
            {"learning_rate": "fast"},
            "--learning-rate is 'fast': it must be a number, linear:START:END, ",
        ),
        (DQNConfig, {"learning_rate": "linear:1e-3:-1"}, "with the value -1: each must be 0 or more"),
        (PPOConfig, {"clip": "linear:0.2"}, "--clip is 'linear:0.2': "),
        (PPOConfig, {"clip": 0.0}, "--clip is 0.0: it must be more than 0"),
        (A2CConfig, {"ent_coef": -0.1}, "--ent-coef is -0.1: it must be 0 or more"),
        (
            DQNConfig,
            {"epsilon": "linear:1:2"},
            r"'linear:1:2', with the value 2: each must be in \[0, 1\]",
        ),
        (DQNConfig, {"epsilon": 1.5}, r"--epsilon is 1.5: it must be in \[0, 1\]"),
        (DDPGConfig, {"actor_learning_rate": -1.0}, "--actor-learning-rate is -1.0: it must be more than 0"),
    ],
)
def test_texts_that_are_refused(cls: Any, settings: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        cls(**settings)


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("ppo", {"learning_rate": "linear:1:0", "anneal_learning_rate": True}, "--anneal-learning-rate would have no"),
        ("ppo", {"clip": "linear:0.2:0", "anneal_clip": True}, "--anneal-clip would have no effect: --clip is"),
        ("dqn", {"epsilon": 0.1, "epsilon_end": 0.1}, "--epsilon-end would have no effect: --epsilon is 0.1"),
        ("ppo", {"learning_rate": f"{__name__}:nothing"}, "no schedule '.*:nothing'"),
        ("ppo", {"ent_coef": f"{__name__}:negative"}, "schedule .*:negative returned -0.5 at progress 1: it must be"),
        ("ppo", {"learning_rate": f"{__name__}:forgotten"}, "returned None at progress 0: it must be a number"),
        ("ppo", {"learning_rate": f"{__name__}:endless"}, "returned inf at progress 0: it must be a finite number"),
        ("ppo", {"clip": f"{__name__}:broken"}, "--clip's schedule .*:broken failed at progress 1: ZeroDivisionError"),
        ("ppo", {"learning_rate": lambda progress: 1e-3}, "which other processes and a resumed run could not import"),
    ],
)  # fmt: skip
def test_a_run_refuses_wrong_schedules(recipe: str, settings: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@dataclass(frozen=True, kw_only=True)
class OwnConfig(PPOConfig):
    learning_rate: float | str = 1e-3
    """Declared again without a range: that of the base class holds."""
    actor_rate: Annotated[float | str, Unit("per update"), Range(0.0, above=True)] = 1e-3
    """A schedule with a range."""
    mixing: Annotated[float, Range(0.0, 1.0)] = 0.5
    """A number with a range."""
    shift: float | str = 0.0
    """A schedule without a range."""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"actor_rate": -3}, "--actor-rate is -3: it must be more than 0"),
        ({"actor_rate": 0.0}, "--actor-rate is 0.0: it must be more than 0"),
        ({"actor_rate": "linear:1e-3:-3"}, "with the value -3: each must be 0 or more"),
        ({"actor_rate": "linear:1"}, "--actor-rate is 'linear:1': linear takes a start and an end"),
        ({"actor_rate": ""}, "--actor-rate is '': it must be a number, "),
        ({"mixing": 1.5}, r"--mixing is 1.5: it must be in \[0, 1\]"),
        ({"learning_rate": -1.0}, "--learning-rate is -1.0: it must be more than 0"),
    ],
)
def test_the_ranges_of_a_plug_in_s_settings_are_checked(settings: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        OwnConfig(**settings)


def test_a_function_has_its_setting_s_range() -> None:
    assert OwnConfig(shift=-3.0, actor_rate="linear:1e-3:0").shift == -3.0
    with pytest.raises(
        UsageError, match=r"--shift's schedule .* returned nan at progress 0: it must be a finite"
    ):
        make_schedule(OwnConfig(shift=f"{__name__}:undefined"), "shift")(0.0)
    assert make_schedule(OwnConfig(shift=f"{__name__}:negative"), "shift")(1.0) == -0.5
    with pytest.raises(
        UsageError, match=r"--actor-rate's schedule .* returned -0.5 at progress 1: it must be 0 or"
    ):
        make_schedule(OwnConfig(actor_rate=f"{__name__}:negative"), "actor_rate")(1.0)


@dataclass(frozen=True)
class Unchecked:
    rate: float | str = "linear:1"


def test_a_setting_whose_class_does_not_check_it() -> None:
    with pytest.raises(UsageError, match="--rate is 'linear:1': linear takes a start and an end"):
        make_schedule(Unchecked(), "rate")


def test_flags() -> None:
    line = CommandLine("train", "")
    line.add(DQNConfig)
    given = line.parse(["--learning-rate", "1e-3", "--epsilon", "linear:1:0"])
    assert given == {"learning_rate": 1e-3, "epsilon": "linear:1:0"}


def test_a_run_with_functions_is_stored_by_name_and_resumed(tmp_path: Path) -> None:
    settings = SETTINGS | {"learning_rate": halved, "clip": "cosine:0.3:0.1", "ent_coef": "linear:0.1:0"}
    whole = veldt.train("ppo", run_dir=tmp_path / "whole", **settings)
    config = json.loads((whole.path / "config.json").read_text())["resolved"]
    assert config["learn"]["learning_rate"] == f"{__name__}:halved"
    assert config["learn"]["clip"] == "cosine:0.3:0.1"
    assert to_dict(from_dict(config)) == config
    half = veldt.train("ppo", run_dir=tmp_path / "half", checkpoint_every=128, **settings)
    newest = max((half.path / "checkpoints").glob("step-*"))
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    veldt.resume(half.path, quiet=True)
    assert_same_run(whole.path, half.path)


def test_a_schedule_function_of_a_foreign_run_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function is needed to resume training, not to evaluate the policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_rate.py").write_text("raise SystemExit('imported')\n")
    run = veldt.train("ppo", run_dir=tmp_path / "run", **SETTINGS)
    config = json.loads((run.path / "config.json").read_text())
    config["resolved"]["learn"]["learning_rate"] = "evil_rate:rate"
    (run.path / "config.json").write_text(json.dumps(config))
    assert veldt.load(run.path).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    with pytest.raises(
        UsageError, match=r"the schedule evil_rate:rate, imported from .*evil_rate\.py: this is code"
    ):
        veldt.resume(run.path, steps=640, quiet=True)
