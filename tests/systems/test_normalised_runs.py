"""Whole runs with normalised observations and rewards: resumed, evaluated, loaded, by several learners, and refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_rows import learning

import veldt
from run_state import SMALL, SMALL_REPLAYED, arrays_of, assert_same, newest
from veldt.agent import make_network
from veldt.errors import UsageError
from veldt.learning.learner import load_weights
from veldt.networks.flat import FlatParameters
from veldt.networks.normaliser import NAME
from veldt.recipes import RECIPES, plain_recipes
from veldt.recipes.overrides import build_config, with_settings

OBSERVATIONS = {"normalise_observations": True}
BOTH = OBSERVATIONS | {"normalise_rewards": True}
PPO = SMALL | BOTH | {"quiet": True, "env_backend": "in-process"}
PPO |= {"anneal_learning_rate": False, "anneal_clip": False}
REPLAYED = SMALL_REPLAYED | OBSERVATIONS | {"quiet": True, "env_backend": "in-process", "steps": 400}
DQN = {"epsilon_steps": 8_000, "learning_rate": 1e-3}  # the recipe's fall over the run
A2C = {"num_envs": 4, "horizon": 6, "hidden": (16,), "threads": 1, "precision": "fp32", "quiet": True} | BOTH


def statistics_of(run: Path) -> dict[str, np.ndarray]:
    """Count, mean and variance in the newest checkpoint, of the only normalised field."""
    weights, first = newest(run).groups["weights"], f"{NAME}.fields.0."
    return {name.removeprefix(first): weights[name] for name in weights if name.startswith(first)}


def rewards_of(run: Path) -> dict[str, Any]:
    """The state of the normalisation of rewards, by rank."""
    learners = newest(run).meta["learners"]
    return {rank: learner["experience"]["rewards"] for rank, learner in learners.items()}


@pytest.mark.parametrize(
    ("recipe", "env", "settings"),
    [
        ("ppo", "Pendulum-v1", PPO),
        ("ppo", "environments:dictionary", PPO),
        ("ppo", "environments:scripted", PPO | {"resets": "wait", "random_start_steps": 20}),
        ("a2c", "environments:scripted", A2C | {"lstm": 5, "shared": True}),
        ("dqn", "environments:scripted", REPLAYED | DQN),
        ("ddpg", "environments:bounded_box", REPLAYED | {"target_update_interval": 0}),
    ],
    ids=["ppo", "dictionary", "wait", "lstm", "dqn", "ddpg"],
)
def test_a_resumed_run_equals_the_uninterrupted_one(
    recipe: str, env: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """And every step of the run is in the statistics, once."""
    settings = {"steps": 600} | settings
    whole = veldt.train(recipe, env=env, run_dir=tmp_path / "whole", **settings)
    half = settings | {"steps": settings["steps"] // 2}
    veldt.train(recipe, env=env, run_dir=tmp_path / "halves", **half)
    before = statistics_of(tmp_path / "halves")
    veldt.resume(tmp_path / "halves", steps=settings["steps"], quiet=True)
    one, two = (arrays_of(newest(tmp_path / run)) for run in ("whole", "halves"))
    assert_same(one, two)
    statistics = statistics_of(whole.path)
    assert statistics["count"] == whole.summary["steps"] > before["count"]
    if "normalise_rewards" in settings:
        assert rewards_of(whole.path)["0"]["moments"][0] == whole.summary["steps"]
    assert len(veldt.evaluate(whole.path, episodes=2).scores) == 2


def test_two_learners_have_the_same_statistics_of_all_steps(tmp_path: Path) -> None:
    settings = PPO | {"steps": 200, "env": "environments:scripted", "learners": 2}
    run = veldt.train("ppo", run_dir=tmp_path / "run", **settings)
    first, second = rewards_of(run.path).values()
    assert statistics_of(run.path)["count"] == first["moments"][0] == run.summary["steps"]
    assert first["moments"] == second["moments"]
    assert first["returns"] != second["returns"], "of each learner's own envs"


@pytest.mark.parametrize("recipe", ["ppo", "dqn"])
def test_two_learners_are_resumed_bit_for_bit(recipe: str, tmp_path: Path) -> None:
    settings = PPO if recipe == "ppo" else REPLAYED | DQN
    settings = settings | {"env": "environments:scripted", "learners": 2, "steps": 400}
    whole = veldt.train(recipe, run_dir=tmp_path / "whole", **settings)
    veldt.train(recipe, run_dir=tmp_path / "halves", **(settings | {"steps": 200}))
    veldt.resume(tmp_path / "halves", steps=400, quiet=True)
    one, two = (newest(tmp_path / run) for run in ("whole", "halves"))
    assert_same(arrays_of(one), arrays_of(two))
    for rank, learner in one.meta["learners"].items():
        assert learner["experience"] == two.meta["learners"][rank]["experience"]
    assert statistics_of(whole.path)["count"] == whole.summary["steps"]


def test_evaluation_changes_no_statistics(tmp_path: Path) -> None:
    settings = PPO | {"env": "environments:scripted", "steps": 300}
    plain = veldt.train("ppo", run_dir=tmp_path / "plain", **settings).path
    evaluated = veldt.train(
        "ppo", run_dir=tmp_path / "evaluated", evaluate_every=64, evaluate_steps=100, **settings
    ).path
    assert_same(arrays_of(newest(plain)), arrays_of(newest(evaluated)))
    assert rewards_of(plain) == rewards_of(evaluated)
    agent = veldt.load(plain)
    before = {name: buffer.clone() for name, buffer in agent._network.named_buffers()}
    env = agent.make_env()
    observation, _ = env.reset(seed=1)
    for _ in range(3):
        agent.act(observation)
    veldt.evaluate(plain, episodes=2)
    for name, buffer in agent._network.named_buffers():
        assert torch.equal(buffer, before[name])


def test_a_loaded_agent_normalises_raw_observations_as_training_did(tmp_path: Path) -> None:
    """It is the network without a normaliser, on observations that numpy has normalised by the checkpoint's numbers."""
    run = veldt.train("ppo", env="Pendulum-v1", run_dir=tmp_path / "run", steps=600, **PPO).path
    agent, statistics, weights = veldt.load(run), statistics_of(run), dict(newest(run).groups["weights"])
    assert float(statistics["count"]) and abs(statistics["variance"] - 1.0).max() > 0.1
    plain = make_network(with_settings(agent.config, {"normalise_observations": False}), agent.spec)
    load_weights(FlatParameters(plain), {k: v for k, v in weights.items() if not k.startswith(NAME)})
    raw = np.random.default_rng(1).normal(0.0, 4.0, (50, 3)).astype(np.float32)
    scaled = (raw - statistics["mean"]) / np.sqrt(statistics["variance"] + 1e-8)
    with torch.no_grad():
        parameters, values = plain(torch.from_numpy(np.clip(scaled, -10.0, 10.0).astype(np.float32)))
    np.testing.assert_allclose(agent.value(raw), values.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        agent.distribution(raw)["mean"], parameters[:, :1].numpy(), rtol=1e-4, atol=1e-5
    )
    assert agent.value(raw[0]) == pytest.approx(float(values[0]), rel=1e-4, abs=1e-5)


def test_scores_are_of_raw_rewards(tmp_path: Path) -> None:
    """The first episodes of a run are the same with and without: only what is learned from them differs."""
    scores = []
    for name, on in (("off", False), ("on", True)):
        settings = PPO | {"steps": 1, "normalise_observations": False, "normalise_rewards": on}
        run = veldt.train("ppo", env="environments:scripted", run_dir=tmp_path / name, **settings).path
        scores.append((run / "episodes.jsonl").read_bytes())
    assert scores[0] == scores[1] != b""
    off, on = (newest(tmp_path / name).groups["weights"] for name in ("off", "on"))
    assert any(not np.array_equal(off[name], on[name]) for name in off)


@pytest.mark.parametrize("part", ["network", "actor", "critic"])
def test_own_parts_get_normalised_observations(part: str, tmp_path: Path) -> None:
    inputs: list[torch.Tensor] = []

    class Own(torch.nn.Module):
        def __init__(self, outputs: int) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, outputs)

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            inputs.append(observation.detach().clone())
            result: torch.Tensor = self.layer(observation)
            return result

    outputs = {"network": 8, "actor": 5, "critic": 1}[part]
    settings: dict[str, Any] = PPO | {"env": "environments:scripted", "steps": 200}
    if part == "network":
        del settings["hidden"]
    run = veldt.train("ppo", run_dir=tmp_path / "run", **settings, **{part: lambda given: Own(outputs)})
    assert statistics_of(run.path)["count"] == run.summary["steps"]
    assert max(float(each.abs().max()) for each in inputs) <= 10.0, "the env's numbers go up to a million"


def counted_rewards(run: Path) -> float:
    """The steps in the statistics of rewards of a learner with actors or agents."""
    count: float = newest(run).meta["learners"]["0"]["rewards"]["moments"][0]
    return count


SMALL_IMPALA = {"num_envs": 4, "actors": 2, "horizon": 5, "hidden": (16,), "quiet": True, "steps": 2000}
SMALL_IMPALA |= BOTH


@pytest.mark.parametrize(
    "settings",
    [
        {"evaluator_share": 0.1},
        {"replay_share": 0.5, "replay_unrolls": 40, "unrolls": 8},
        {"learners": 2},
        {"lstm": 4, "shared": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_impala_counts_each_new_step_once(settings: dict[str, Any], tmp_path: Path) -> None:
    # Learners send their metrics twice a second: the run has to be longer than that to have a row with a loss.
    settings = {**SMALL_IMPALA, "steps": 8000, "log_every": 0.2, **settings}
    run = veldt.train("impala", env="Pendulum-v1", run_dir=tmp_path / "run", **settings)
    statistics = statistics_of(run.path)
    assert 0.8 * run.summary["steps"] < statistics["count"] <= run.summary["steps"]
    assert abs(statistics["variance"][:2] - 0.5).max() < 0.4, "cosine and sine"
    assert np.isfinite(learning(run.path)[-1]["train/loss"])
    assert counted_rewards(run.path) == statistics["count"]
    again = veldt.resume(run.path, steps=9000, quiet=True)
    later = statistics_of(again.path)["count"]
    assert statistics["count"] < later <= again.summary["steps"]
    assert counted_rewards(again.path) == later


@pytest.mark.parametrize("more", [{}, {"lstm": 4, "shared": True}], ids=["vector", "lstm"])
def test_ga3c_counts_each_step_once(more: dict[str, Any], tmp_path: Path) -> None:
    settings = {"num_envs": 4, "agent_processes": 2, "hidden": (16,), "steps": 2000, "quiet": True, **more}
    run = veldt.train("ga3c", env="Pendulum-v1", run_dir=tmp_path / "run", **settings, **BOTH)
    statistics = statistics_of(run.path)
    assert 0.8 * run.summary["steps"] < statistics["count"] <= run.summary["steps"]
    assert abs(statistics["variance"][:2] - 0.5).max() < 0.4, "cosine and sine"
    assert counted_rewards(run.path) == statistics["count"]
    again = veldt.resume(run.path, steps=4000, quiet=True)
    later = statistics_of(again.path)["count"]
    assert statistics["count"] + 1500 < later <= again.summary["steps"]
    assert counted_rewards(again.path) == later


@pytest.mark.parametrize("recipe", ["a3c", "appo", "async-dqn"])
def test_independent_learners_add_to_the_same_statistics(recipe: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"learners": 2, "num_envs": 4, "hidden": (16,), "quiet": True} | OBSERVATIONS
    settings |= {"evaluate_every": 1000, "evaluate_steps": 50}
    if recipe == "async-dqn":
        settings |= {"batch_size": 16, "buffer_size": 4000, "learning_starts": 200}
    else:
        settings |= BOTH | ({"horizon": 8} if recipe == "a3c" else {"batch_size": 32})
    run = veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", steps=2000, **settings)
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2
    first = shared_statistics_of(run)
    second = shared_statistics_of(veldt.resume(run.path, steps=3000, quiet=True))
    for name, numbers in first.items():
        assert numbers[0] < second[name][0]


def shared_statistics_of(run: veldt.Run) -> dict[str, list[float]]:
    """The numbers of the newest checkpoint, by name: they count each step of the run.

    But for a rollout of each learner: one may have counted those of its observations, and not yet those of its rewards.
    """
    shared: dict[str, list[float]] = newest(run.path).meta["learners"]["0"]["statistics"]
    for numbers in shared.values():
        assert abs(numbers[0] - run.summary["steps"]) <= 2 * 32
    return shared


@pytest.mark.parametrize(
    ("recipe", "env", "settings", "message"),
    [
        (
            "gorila",
            "CartPole-v1",
            OBSERVATIONS,
            "the system gorila cannot keep the statistics: its learners share",
        ),
        (
            "apex-dqn",
            "CartPole-v1",
            OBSERVATIONS,
            "the system apex cannot keep the statistics: its learners see only",
        ),
        (
            "ppo",
            "CartPole-v1",
            BOTH | {"clip_rewards": True},
            "give --no-clip-rewards to normalise them, or --no-normalise-rewards to clip them",
        ),
        ("dqn", "CartPole-v1", {"normalise_rewards": True}, "--normalise-rewards is none of dqn's settings"),
        ("ppo", "FrozenLake-v1", OBSERVATIONS, "this environment's observations have no real numbers"),
        ("ppo", "environments:image_rows_columns_channels", OBSERVATIONS, "only images or discrete values"),
        ("ppo", "environments:tuple_of_numbers", OBSERVATIONS, "those in a Tuple space are not"),
    ],
)
def test_what_cannot_be_right_is_refused(
    recipe: str, env: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.train(recipe, env=env, run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["normalise_observations", "normalise_rewards"])
@pytest.mark.parametrize("recipe", plain_recipes())
def test_a_recipe_that_cannot_normalise_names_those_that_can(recipe: str, name: str) -> None:
    on = {name: True, **({"clip_rewards": False} if name == "normalise_rewards" else {})}
    try:
        build_config(RECIPES[recipe].draft("CartPole-v1"), on)
    except UsageError as refused:
        named = re.search(r"take a recipe (?:that can|that has it) \(([^)]+)\)", str(refused))
        assert named, str(refused)
        kinds = (re.sub(r" for \S+ actions$", "", kind) for kind in named[1].split("; "))
        for other in ", ".join(kinds).split(", "):
            build_config(RECIPES[other].draft("CartPole-v1"), on)
