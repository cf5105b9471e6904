"""Several synchronous learners: equal parameters, resumed bit for bit, and an error if the parameters differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_rows import episodes, events, learning
from torch import nn

import veldt
from run_state import SMALL, SMALL_REPLAYED, arrays_of, assert_same, newest
from veldt.errors import RoleError, UsageError

ON_POLICY = {"num_envs": 4, "hidden": (16,), "log_every": 0.2, "threads": 1, "precision": "fp32"}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a2c": ("CartPole-v1", ON_POLICY | {"horizon": 5, "steps": 600}),
    "ppo": ("CartPole-v1", SMALL | {"steps": 640, "anneal_learning_rate": False, "anneal_clip": False}),
    "rainbow": (
        "CartPole-v1",
        SMALL_REPLAYED | {"steps": 600, "noisy": True, "importance_exponent_end": 0.4, "learning_rate": 1e-3},
    ),
    "c51": ("CartPole-v1", SMALL_REPLAYED | {"steps": 600, "learning_rate": 1e-3, "epsilon_steps": 8_000}),
    "ddpg": ("environments:bounded_box", SMALL_REPLAYED | {"steps": 600, "target_update_interval": 0}),
}


def state_of(run: Path) -> dict[str, Any]:
    """Arrays and counters of the newest checkpoint, and the bytes of the list of episodes, sorted."""
    checkpoint = newest(run)
    state = arrays_of(checkpoint)
    for rank, unit in checkpoint.meta["learners"].items():
        state |= {
            f"{rank}/{name}": value
            for name, value in unit.items()
            if name in ("updates", "phase", "episodes")
        }
    state |= {"step": checkpoint.step, "rate_limiter": checkpoint.meta["rate_limiter"]}
    state["games"] = sorted((game["env"], game["episode"], game["score"]) for game in episodes(run))
    return state


@pytest.mark.parametrize("recipe", RUNS)
def test_a_resumed_run_of_two_learners_equals_the_uninterrupted_run(recipe: str, tmp_path: Path) -> None:
    env, settings = RUNS[recipe]
    settings = settings | {"learners": 2, "quiet": True, "seed": 3}
    whole = veldt.train(recipe, env=env, run_dir=tmp_path / "whole", **settings)
    half = settings | {"steps": settings["steps"] // 2}
    veldt.train(recipe, env=env, run_dir=tmp_path / "halves", **half)
    halves = veldt.resume(tmp_path / "halves", steps=settings["steps"], quiet=True)
    assert whole.summary["steps"] == halves.summary["steps"] >= settings["steps"]
    one, two = state_of(whole.path), state_of(halves.path)
    assert_same(one, two)
    assert one["games"], "no game was finished: the comparison would not see games"
    assert {game[0] for game in one["games"]} == set(range(4)), "each unit plays its own envs"
    assert learning(whole.path)[-1]["train/loss"] != 0.0
    assert np.isfinite(veldt.evaluate(whole.path, episodes=2).mean)


def test_all_learners_wait_until_every_replay_buffer_is_full_enough(tmp_path: Path) -> None:
    """What a replay buffer has depends on when its episodes end, and each learner has to bring as many gradients."""
    settings = SMALL_REPLAYED | {"num_envs": 2, "learners": 2, "steps": 400, "quiet": True}
    settings |= {"batch_size": 32, "learning_starts": 32, "n_step": 25, "horizon": 1, "buffer_size": 2000}
    run = veldt.train("rainbow", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    first, second = newest(run.path).meta["rate_limiter"]["updates"]
    assert first == second > 0 and not events(run.path, "restart")


def own_network(shape: tuple[int, ...]) -> nn.Module:
    """Begins elsewhere in each process, which nobody can know."""
    layer = nn.Linear(shape[0], 8)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.random.default_rng().normal(size=(8, shape[0]))))
    return layer


def test_learners_with_different_first_parameters_are_refused(tmp_path: Path) -> None:
    settings = ON_POLICY | {"horizon": 5, "steps": 600, "learners": 2, "quiet": True}
    del settings["hidden"]
    with pytest.raises(
        RoleError, match=r"learners . and . differ in their parameters: all of them must have"
    ):
        veldt.train("a2c", env="CartPole-v1", network=own_network, run_dir=tmp_path / "run", **settings)


@pytest.mark.parametrize("checkpoint_every", [10**9, 1000], ids=["now and then", "with a checkpoint"])
def test_learners_whose_parameters_diverge_are_refused(checkpoint_every: int, tmp_path: Path) -> None:
    """Though they began alike; and before anything of it is saved."""
    settings = ON_POLICY | {"horizon": 5, "steps": 10**9, "checkpoint_every": checkpoint_every}
    settings |= {"network": "own_networks:drifting", "learners": 2, "max_restarts": 0, "quiet": True}
    del settings["hidden"]
    with pytest.raises(
        RoleError, match=r"learners . and . differ in their parameters: all of them must have"
    ):
        veldt.train("a2c", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    assert newest(tmp_path / "run").step == 0


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("a2c", {"learners": 3}, "--num-envs is 4 and --learners is 3: each learner must get as many"),
        (
            "dqn",
            {"learners": 4, "batch_size": 18},
            "--batch-size is 18 and --learners is 4: each learner must get as many",
        ),
        (
            "ppo",
            {"learners": 4, "batch_size": 16, "minibatches": 8},
            "an update learns from 2 steps, and --learners is 4: each learner must get one at least",
        ),
        ("a2c", {"learners": 0}, "--learners is 0: it must be at least 1"),
        (
            "a2c",
            {"max_restarts": 3},
            "--max-restarts would have no effect: a single learner works in this process",
        ),
        ("a2c", {"chunks": 3}, "--chunks is none of a2c's settings: take a recipe that has it"),
        (
            "a2c",
            {"network": "own_networks:with_batch_norm", "learners": 2},
            "the network has the buffer '.*', and learners share parameters only",
        ),
    ],
)
def test_impossible_settings_are_refused(recipe: str, settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.train(
            recipe,
            env="CartPole-v1",
            run_dir=tmp_path / "run",
            quiet=True,
            **({"num_envs": 4} | settings),
        )
    assert not (tmp_path / "run").exists()


def test_two_learners_play_the_episodes_that_one_would(tmp_path: Path) -> None:
    """Every env of a run has seeds by its index in the run: no two learners repeat each other's episodes."""
    settings = {"num_envs": 4, "hidden": (16,), "horizon": 5, "steps": 1200, "seed": 3, "quiet": True}
    seeds = []
    for learners in (1, 2):
        run = veldt.train(
            "a2c", env="CartPole-v1", run_dir=tmp_path / str(learners), learners=learners, **settings
        )
        seeds.append({(one["env"], one["episode"]): one["seed"] for one in episodes(run.path)})
    one, two = seeds
    both = one.keys() & two.keys()
    assert {env for env, _ in both} == set(range(4))
    assert {key: one[key] for key in both} == {key: two[key] for key in both}
    assert len(set(two.values())) == len(two), "two envs were reset with the same seed"
