"""Evaluation from starts in the middle of episodes: what is observed and counted, and that it is what was recorded."""

from __future__ import annotations

import dataclasses
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import veldt
from environments import Scripted
from run_state import SMALL, SMALL_ATARI
from veldt.agent import Agent
from veldt.envs.seeding import EVALUATION, derive_seed, episode_seed
from veldt.evaluation.starts import Start, Starts, read_starts

ATARI = SMALL_ATARI | {"max_episode_steps": 40}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole": ("ppo", SMALL | {"env": "CartPole-v1", "steps": 128}),
    "dictionary": ("ppo", SMALL | {"env": "environments:dictionary", "steps": 128}),
    "lopsided box": ("ppo", SMALL | {"env": "environments:lopsided_box", "steps": 128}),
    "SpaceInvaders": ("a2c", ATARI | {"env": "ALE/SpaceInvaders-v5", "steps": 60, "sticky_actions": 0.25}),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe, settings = RUNS[request.param]
    path = tmp_path_factory.mktemp("runs") / "run"
    veldt.train(recipe, run_dir=path, quiet=True, **settings)
    return path


@pytest.fixture(scope="module")
def starts(run: Path) -> Starts:
    """More starts than envs, so that each env plays several."""
    return veldt.record_starts(run, starts=7, seed=4)


def by_what_is_seen(agent: Agent) -> Agent:
    """A policy whose action is a hash of its whole input: one wrong pixel of the history changes the action."""
    spec = agent.spec.action

    def choose(observation: Any, noise: Any, greedy: bool, forward: Any) -> np.ndarray:
        fields = list(observation.values()) if isinstance(observation, dict) else [observation]
        rows = [[np.ascontiguousarray(array).tobytes() for array in field.numpy()] for field in fields]
        seeds = [zlib.crc32(b"".join(row)) for row in zip(*rows, strict=True)]
        return np.concatenate([spec.sample(np.random.default_rng(seed), 1) for seed in seeds])

    agent.choose = choose  # type: ignore[method-assign]
    return agent


def test_episodes_continue_from_the_end_of_the_recorded_actions(run: Path, starts: Starts) -> None:
    agent = by_what_is_seen(veldt.load(run))
    result = veldt.evaluate(agent, starts=starts.path)
    env = agent.make_env()
    for index, start in enumerate(starts.each):
        observation, _ = env.reset(seed=start.seed)
        for action in start.actions:
            observation, _, *over, _ = env.step(agent.spec.action.to_env(action))
            assert not any(over)
        score, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
            score, length, ended = score + float(np.float32(reward)), length + 1, terminated or truncated
        assert (result.scores[index], result.lengths[index]) == (pytest.approx(score), length), index
    assert len(result.scores) == len(starts) == index + 1


@pytest.mark.parametrize("envs", ["in-process", "workers"])
def test_the_same_seed_gives_the_same_episodes(run: Path, starts: Starts, envs: str) -> None:
    agent = veldt.load(run)
    simulation = dataclasses.replace(agent.config.envs, env_backend=envs)
    agent.config = dataclasses.replace(agent.config, envs=simulation)
    one = veldt.evaluate(agent, starts=starts.path, seed=1)
    assert one == veldt.evaluate(run, starts=str(starts.path), protocol="human-starts", seed=1)
    assert one != veldt.evaluate(run, starts=starts.path, seed=2)


def test_recorded_episodes_are_the_agents_and_points_are_drawn_in_each(run: Path, starts: Starts) -> None:
    again = veldt.record_starts(run, starts=7, seed=4, out=run.parent / "again")
    assert [start.digest for start in again.each] == [start.digest for start in starts.each]
    assert starts.path == run / "starts.safetensors" and len(read_starts(starts.path)) == 7
    other = veldt.record_starts(run, starts=7, seed=5, out=run.parent / "other")
    assert [start.digest for start in other.each] != [start.digest for start in starts.each]
    agent = by_what_is_seen(veldt.load(run))
    recorded = veldt.record_starts(agent, starts=7, seed=4, out=run.parent / "recorded")
    seed = derive_seed(derive_seed(4, EVALUATION, 1), EVALUATION)
    width, lengths, env = agent.config.envs.num_envs, [], agent.make_env()
    for index, start in enumerate(recorded.each):
        assert start.seed == episode_seed(seed, index % width, index // width)
        observation, _ = env.reset(seed=start.seed)
        actions, over = [], False
        while not over:
            action = agent.act(observation)
            observation, _, terminated, truncated, _ = env.step(action)
            actions, over = [*actions, action], terminated or truncated
        assert len(start.actions) < len(actions)
        played = [agent.spec.action.to_env(action) for action in start.actions]
        assert all(np.array_equal(one, other) for one, other in zip(played, actions, strict=False))
        lengths.append(len(actions))
    points = np.random.default_rng(derive_seed(4, EVALUATION, 2))
    assert recorded.lengths == [int(points.integers(0, length)) for length in lengths]


def test_the_recurrent_state_at_a_start_includes_the_steps_before_it(tmp_path: Path) -> None:
    settings = {"num_envs": 3, "horizon": 8, "threads": 1, "precision": "fp32", "hidden": (16,)}
    run = veldt.train(
        "a2c",
        env="environments:dictionary",
        run_dir=tmp_path / "run",
        quiet=True,
        env_backend="in-process",
        lstm=16,
        shared=True,
        steps=200,
        **settings,
    )
    starts = veldt.record_starts(run.path, starts=20)
    assert max(starts.lengths) > 3
    agent = veldt.load(run.path)

    @torch.no_grad()
    def by_what_is_remembered(observation: Any, noise: Any, greedy: bool, forward: Any) -> np.ndarray:
        return (forward(observation)[1].abs() * 1e3).long().numpy() % 4

    agent.choose = by_what_is_remembered  # type: ignore[method-assign]
    result = veldt.evaluate(agent, starts=starts.path)
    env, differs = agent.make_env(), 0
    for index, start in enumerate(starts.each):
        scores = []
        for sees in (True, False):
            observation, _ = env.reset(seed=start.seed)
            agent.reset()
            for action in start.actions:
                if sees:
                    agent.act(observation)
                observation, *_ = env.step(agent.spec.action.to_env(action))
            score, over = 0.0, False
            while not over:
                action = agent.act(observation)
                observation, reward, terminated, truncated, _ = env.step(action)
                score, over = score + float(reward), terminated or truncated
            scores.append(score)
        assert result.scores[index] == scores[0], index
        differs += scores[0] != scores[1]
    assert differs, "forgetting what led there would have been the same"


def test_agents_with_other_preprocessing_start_at_the_same_points(tmp_path: Path) -> None:
    settings = ATARI | {
        "env": "ALE/SpaceInvaders-v5",
        "steps": 60,
        "quiet": True,
        "env_backend": "in-process",
    }
    one = veldt.train("a2c", run_dir=tmp_path / "one", no_ops=3, **settings)
    more = {"preprocessing": "84x84", "frame_stack": 2, "max_episode_steps": 50, "no_ops": 30}
    other = veldt.train("a2c", run_dir=tmp_path / "other", **settings | more)
    starts = veldt.record_starts(one.path, starts=3)
    result = veldt.evaluate(other.path, starts=starts.path)
    # All episodes are truncated: what was played before the start is part of their time.
    assert [a + b for a, b in zip(starts.lengths, result.lengths, strict=True)] == [50] * 3


class Changing(Scripted):
    """An env whose episode length and observations are in the file `now`."""

    def __init__(self) -> None:
        self._now = np.loadtxt("now", ndmin=1)
        super().__init__([(int(self._now[0]), "terminated")])

    def _observation(self, action: Any) -> np.ndarray:
        return super()._observation(action) + np.float32(self._now[1])


def changing() -> gymnasium.Env[Any, Any]:
    return Changing()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("40 1", r"start \d leads to other observations than when it was recorded"),
        ("2 0", r"start \d is of an episode that ends before it"),
    ],
)
def test_an_environment_that_has_changed(
    now: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("now").write_text("40 0")
    settings = SMALL | {"env": changing, "steps": 128, "env_backend": "in-process"}
    run = veldt.train("ppo", run_dir="run", quiet=True, **settings)
    agent = veldt.load(run.path, env=changing)
    starts = veldt.record_starts(agent, starts=6)
    assert min(starts.lengths) > 0 and len(veldt.evaluate(agent, starts=starts.path).scores) == 6
    Path("now").write_text(now)
    with pytest.raises(veldt.UsageError, match=rf"{said} \(python .*veldt .*\), so .*record new starts here"):
        veldt.evaluate(agent, starts=starts.path)


def test_a_start_at_the_end_of_an_episode(run: Path, starts: Starts) -> None:
    """`record-starts` never makes such a start, but a file may contain one."""
    agent = veldt.load(run)
    env, start = agent.make_env(), starts.each[0]
    env.reset(seed=start.seed)
    actions, over = [], False
    rng = np.random.default_rng(0)
    while not over:
        (action,) = agent.spec.action.sample(rng, 1)
        actions.append(action)
        _, _, terminated, truncated, _ = env.step(agent.spec.action.to_env(action))
        over = terminated or truncated
    ended = Start(start.seed, np.array(actions), start.digest)
    path = starts.path.with_name("ended")
    dataclasses.replace(starts, path=path, each=(*starts.each[:2], ended)).write()
    with pytest.raises(veldt.UsageError, match=r"start 2 is of an episode that ends|--max-episode-steps"):
        veldt.evaluate(agent, starts=path)
    path.unlink()
