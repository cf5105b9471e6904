"""Evaluation plays whole episodes that a seed fixes, with the policy that `load` gives."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, SMALL_ATARI
from veldt.envs.seeding import EVALUATION, derive_seed, episode_seed
from veldt.evaluation.evaluator import EvaluatedRows, play_until

ATARI = SMALL_ATARI | {"max_episode_steps": 25}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole": ("ppo", SMALL | {"env": "CartPole-v1", "steps": 128}),
    "dictionary": ("ppo", SMALL | {"env": "environments:dictionary", "steps": 128}),
    "SpaceInvaders": ("a2c", ATARI | {"env": "ALE/SpaceInvaders-v5", "steps": 60}),
}


@pytest.mark.parametrize("name", RUNS)
def test_whole_episodes_by_seed(name: str, tmp_path: Path) -> None:
    recipe, settings = RUNS[name]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    agent = veldt.load(run.path)
    width = settings["num_envs"]
    episodes = 2 * width + 1
    greedy = veldt.evaluate(agent, episodes=episodes, seed=7, greedy=True)
    assert greedy == veldt.evaluate(run, episodes=episodes, seed=7, greedy=True)
    # By hand: the first episodes of each env, one after the other.
    env, seed = agent.make_env(), derive_seed(7, EVALUATION)
    for index in range(episodes):
        observation, _ = env.reset(seed=episode_seed(seed, index % width, index // width))
        score, length, over = 0.0, 0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(agent.act(observation, greedy=True))
            score, length, over = score + float(reward), length + 1, terminated or truncated
        assert (greedy.scores[index], greedy.lengths[index]) == (score, length), index


def test_sampled_actions_depend_on_the_seed_alone(tmp_path: Path) -> None:
    recipe, settings = RUNS["CartPole"]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    one, again, other = (veldt.evaluate(run.path, episodes=9, seed=seed) for seed in (1, 1, 2))
    assert one == again and one != other
    assert len(one.scores) == len(one.lengths) == 9 and one.scores == [float(n) for n in one.lengths]
    assert one.mean == sum(one.scores) / 9


@pytest.mark.parametrize(("name", "shape"), [("CartPole", (3,)), ("SpaceInvaders", (104, 80))])
def test_an_observation_of_another_shape_is_refused(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    recipe, settings = RUNS[name]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    with pytest.raises(ValueError, match="the observation has shape"):
        veldt.load(run.path).act(np.zeros(shape, np.uint8))


class Reached(Exception):
    """The network was called."""


@pytest.mark.parametrize("name", ["CartPole", "dictionary"])
def test_observations_are_brought_to_the_policys_device(name: str, tmp_path: Path) -> None:
    recipe, settings = RUNS[name]
    agent = veldt.load(veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings).path)
    agent._device = torch.device("meta")  # a device that every machine has, and where nothing else is

    def network(observation: Any) -> Any:
        fields = observation.values() if isinstance(observation, dict) else [observation]
        assert {array.device.type for array in fields} == {"meta"}
        raise Reached

    agent._network = network  # type: ignore[assignment]
    with pytest.raises(Reached):
        veldt.evaluate(agent, episodes=1, greedy=True)
    with pytest.raises(Reached):
        agent.act(agent.make_env().reset(seed=1)[0], greedy=True)


def test_a_missing_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recipe, settings = RUNS["CartPole"]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    with pytest.raises(veldt.UsageError, match="--device cuda does not exist"):
        veldt.load(run.path, device="cuda")
    with pytest.raises(veldt.UsageError, match="--device warp"):
        veldt.load(run.path, device="warp")
    assert veldt.load(run.path, device="auto").act([0.0, 0.1, 0.0, 0.1]) in (0, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("name", RUNS)
def test_on_a_gpu(name: str, tmp_path: Path) -> None:
    recipe, settings = RUNS[name]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    agent = veldt.load(run.path, device="cuda")
    assert len(veldt.evaluate(agent, episodes=3).scores) == 3


@pytest.mark.parametrize("episodes", [0, -1])
def test_a_wrong_number_of_episodes_is_refused(episodes: int, tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError, match="--episodes is "):
        veldt.evaluate(tmp_path, episodes=episodes)


def test_a_note_says_that_an_episode_does_not_end(capsys: pytest.CaptureFixture[str]) -> None:
    """An environment that ends none would be evaluated forever, without a word."""
    lengths = itertools.count(10_000, 10_000)
    rows = (EvaluatedRows([], np.zeros(2), np.array([32, next(lengths)])) for _ in range(9))
    with pytest.raises(StopIteration):
        play_until(rows, 2, lambda episode: True)
    assert capsys.readouterr().err.startswith(
        "note: an episode has 40,000 steps and goes on (0 of 2 have ended): if the environment has no time limit"
    )


def test_the_network_computes_on_the_run_s_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads make a small network slower, beside other programs many times."""
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", steps=100, quiet=True, **SMALL)
    seen: list[int] = []
    agent = veldt.load(run.path)
    choose = agent.choose
    monkeypatch.setattr(
        agent, "choose", lambda *given: seen.append(torch.get_num_threads()) or choose(*given)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        veldt.evaluate(agent, episodes=1)
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
