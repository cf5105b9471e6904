"""Every algorithm learns a simple task in every system that it fits; other pairs are refused with the reason.

`make test` trains each algorithm and each system in at least one pair, and builds the graphs of the other pairs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from run_rows import metrics

import veldt
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.cli import main
from veldt.config.fit import incompatibility
from veldt.config.run_request import RunRequest
from veldt.config.system_registry import SYSTEMS
from veldt.envs.source import resolve
from veldt.errors import UsageError
from veldt.recipes import RECIPES, find
from veldt.recipes.overrides import with_settings
from veldt.systems.planning.run_plan import make_run_plan

PAIRS = [(system, algorithm) for system in SYSTEMS for algorithm in ALGORITHMS]
FITS = [(system, algorithm) for system, algorithm in PAIRS if incompatibility(system, algorithm) is None]
SHORT = {
    *(("synchronous", algorithm) for algorithm in ALGORITHMS),
    ("asynchronous", "a2c"),
    ("apex", "ddpg"),
    ("impala", "vtrace"),
    ("gorila", "dqn"),
    ("ga3c", "ppo"),
}
GOOD = 0.75  # of one step's reward, which is 0.25 by chance


class Choice(gymnasium.Env[np.ndarray, Any]):
    """Episodes of one step: of four actions, or quarters of a range, one is rewarded."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, *, continuous: bool) -> None:
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(4)
        self._continuous = continuous

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        # Of a range the reward is smooth besides: a gradient of it has to lead there.
        reward = 1.0 - float(abs(action[0] - 0.5)) / 1.5 if self._continuous else float(action == 2)
        return np.ones(1, np.float32), reward, True, False, {}


def four_arms() -> gymnasium.Env[np.ndarray, Any]:
    return Choice(continuous=False)


def a_range() -> gymnasium.Env[np.ndarray, Any]:
    return Choice(continuous=True)


def settings_of(system: str, algorithm: str) -> tuple[str, dict[str, Any]]:
    """A recipe of the system, and settings by which this algorithm in it learns in a few hundred updates."""
    settings: dict[str, Any] = {"num_envs": 8, "hidden": (16,), "steps": 6000, "seed": 1}
    settings |= {"learning_rate": 5e-3, "algorithm": algorithm}
    if algorithm in ("a2c", "vtrace"):
        settings |= {"horizon": 8}
    elif algorithm == "ppo":
        settings |= {"batch_size": 64, "minibatches": 1, "epochs": 4}
    else:
        settings |= {
            "steps": 4000,
            "batch_size": 32,
            "learning_starts": 400,
            "buffer_size": 4000,
            "training_intensity": 8.0,
        }
        settings |= {"target_update_interval": 50}
        if algorithm in ("c51", "rainbow"):
            settings |= {"value_min": -1.0, "value_max": 2.0, "atoms": 13}
        if algorithm == "ddpg":
            settings |= {"actor_learning_rate": 5e-3}
        elif system != "apex":
            settings |= {"epsilon_steps": 2000}
    if system in ("asynchronous", "gorila"):
        settings |= {"learners": 2}
    if system == "ga3c":
        settings |= {"agent_processes": 2}
    if system == "gorila":
        settings |= {"parameter_shards": 2}
    if system in ("apex", "impala"):
        settings |= {"actors": 2}
    own = [recipe for recipe in RECIPES.values() if recipe.system == system]
    best = min(
        own,
        key=lambda recipe: (recipe.algorithm != algorithm, replays(recipe.algorithm) != replays(algorithm)),
    )
    return best.name, settings


def replays(algorithm: str) -> bool:
    return issubclass(ALGORITHMS[algorithm].settings, OffPolicyConfig)


@pytest.mark.parametrize(("system", "algorithm"), [pair for pair in PAIRS if pair not in FITS])
def test_a_pair_that_does_not_fit_is_refused_with_the_reason(
    system: str, algorithm: str, tmp_path: Path
) -> None:
    recipe, _ = settings_of(system, algorithm)
    with pytest.raises(UsageError, match=f"^{algorithm} .*the system {system} "):
        veldt.train(recipe, env=four_arms, run_dir=tmp_path / "run", quiet=True, algorithm=algorithm)


@pytest.mark.parametrize(("system", "algorithm"), FITS)
def test_every_pair_has_a_graph(system: str, algorithm: str) -> None:
    recipe, settings = settings_of(system, algorithm)
    env = a_range if algorithm == "ddpg" else four_arms
    del settings["algorithm"]
    if system == "synchronous":
        settings |= {"learners": 2}  # one learner needs no graph
    config = with_settings(find(recipe).config("mine:env", algorithm), settings)
    graph = make_run_plan(RunRequest(config, resolve(env))).graph()
    assert graph.roles and all(role.plans for role in graph.roles)


@pytest.mark.parametrize(
    ("system", "algorithm"),
    [pair if pair in SHORT else pytest.param(*pair, marks=pytest.mark.long) for pair in FITS],
)
def test_every_pair(system: str, algorithm: str, tmp_path: Path) -> None:
    recipe, settings = settings_of(system, algorithm)
    env = a_range if algorithm == "ddpg" else four_arms
    run = veldt.train(recipe, env=env, run_dir=tmp_path / "run", quiet=True, **settings)
    assert metrics(run.path)[-1]["train/updates"] > 10
    assert (run.summary["algorithm"], run.summary["system"]) == (algorithm, system)
    scores = veldt.evaluate(veldt.load(run.path, env=env), episodes=20, greedy=True).scores
    assert np.mean(scores) > GOOD


def test_the_matrix_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recipes", "--matrix"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == list(SYSTEMS)
    cells = {line.split()[0]: line.split()[1:] for line in lines[1 : 1 + len(ALGORITHMS)]}
    assert cells.keys() == ALGORITHMS.keys()
    for system, algorithm in PAIRS:
        cell = cells[algorithm][list(SYSTEMS).index(system)]
        assert (cell == "-") == (incompatibility(system, algorithm) is not None)
        assert cell in ("-", "yes") or RECIPES[cell].algorithm == algorithm
    assert (
        "a2c, ppo, dqn, c51, rainbow, ddpg: the system impala needs an algorithm that corrects"
        in "\n".join(lines)
    )
    with pytest.raises(SystemExit):
        main(["recipes", "--matrix", "ppo"])
    assert "--matrix is about all recipes: leave out 'ppo'" in capsys.readouterr().err
