"""Environments with all kinds of spaces are trained, loaded and acted in; every action is one the space contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import environments
import veldt
from run_state import SMALL
from veldt.envs.spec import action_spec
from veldt.errors import UsageError

NAMES = [
    "dictionary",
    "multi_discrete",
    "lopsided_box",
    "image_rows_columns_channels",
    "discrete_observation",
    "box_of_integers",
    "table_of_choices",
    "switches",
]


@pytest.mark.parametrize("recipe", ["ppo", "a2c"])
@pytest.mark.parametrize("name", NAMES)
def test_train_load_act(name: str, recipe: str, tmp_path: Path) -> None:
    """The environments raise for an action their space does not contain, in training and afterwards."""
    settings = SMALL | {"env": f"environments:{name}", "env_backend": "in-process", "steps": 150}
    if name.startswith("image"):
        del settings["hidden"]  # its network has no such layers
    if recipe == "a2c":
        settings = {
            k: v
            for k, v in settings.items()
            if k not in ("batch_size", "minibatches", "epochs", "anneal_clip")
        }
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    agent = veldt.load(run.path)
    env: gymnasium.Env[Any, Any] = agent.make_env()
    actions = []
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            action = agent.act(observation, greedy=seed == 0)
            assert env.action_space.contains(action), action
            actions.append(np.asarray(action).tobytes())
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    assert len(set(actions)) > 1
    assert len(veldt.evaluate(run.path, episodes=3).scores) == 3


def test_a_box_of_actions_is_used_up_to_its_bounds() -> None:
    """-1 and 1 stand for the bounds; what is outside is clipped."""
    box = environments.lopsided_box().action_space  # [-3, -1], [0, 100], all numbers
    spec = action_spec(box)
    stored = {-1.0: [-3, 0, -1], 0.0: [-2, 50, 0], 1.0: [-1, 100, 1], 7.0: [-1, 100, 7], -7.0: [-3, 0, -7]}
    for value, expected in stored.items():
        action = spec.to_env(np.full(3, value, np.float32))
        assert box.contains(action) and action.tolist() == expected


def test_half_open_bounds() -> None:
    """-1 or 1 stands for the bound that is finite, so that a policy that begins around 0 is inside, wherever it is."""
    box = spaces.Box(np.array([10, -np.inf], np.float32), np.array([np.inf, -20], np.float32))
    spec = action_spec(box)
    stored = {-3.0: [10, -24], -1.0: [10, -22], 0.0: [11, -21], 1.0: [12, -20], 3.0: [14, -20]}
    for value, expected in stored.items():
        assert spec.to_env(np.full(2, value, np.float32)).tolist() == expected


@pytest.mark.parametrize(
    "space", [spaces.Box(-1, 1, (0,), np.float32), spaces.MultiDiscrete(np.zeros(0, np.int64))], ids=repr
)
def test_actions_without_a_dimension_are_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(
        UsageError, match=r"has no dimension to choose in \(shape \(0,\)\): give it at least one"
    ):
        action_spec(space)


FLOATS, DOUBLES = np.finfo(np.float32), np.finfo(np.float64)
UNBOUNDED = [
    spaces.Box(-np.inf, np.inf, (1,), np.int32),
    spaces.Box(-np.inf, np.inf, (1,), np.int64),
    spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (1,), np.int64),
    spaces.Box(FLOATS.min, FLOATS.max, (1,), np.float32),
    spaces.Box(float(DOUBLES.min), float(DOUBLES.max), (1,), np.float64),
]


@pytest.mark.parametrize("box", UNBOUNDED, ids=repr)
def test_the_limits_of_a_type_are_no_bounds(box: spaces.Box) -> None:
    """They have no middle that a policy could begin at, and half of the distance between them overflows."""
    spec = action_spec(box)
    assert [spec.to_env(np.full(1, value, np.float32)).item() for value in (-3, 0, 2)] == [-3, 0, 2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integers_are_within_their_type(dtype: type[np.integer[Any]]) -> None:
    """NumPy would convert what is outside to a number of the other sign."""
    limits = np.iinfo(dtype)
    bounded, unbounded = (
        action_spec(spaces.Box(low, high, (1,), dtype))
        for low, high in ((0, limits.max - 1), (limits.min, limits.max))
    )
    for spec in (bounded, unbounded):
        assert spec.to_env(np.full(1, 1e30, np.float32))[0] > 0.99 * limits.max
    assert unbounded.to_env(np.full(1, -1e30, np.float32))[0] == limits.min


@pytest.mark.parametrize(
    ("box", "numbers"),
    [
        (spaces.Box(0, 1, (1,), np.int8), [0, 1]),
        (spaces.Box(0, 1, (1,), np.bool_), [0, 1]),
        (spaces.Box(-2, 2, (1,), np.int64), [-2, -1, 0, 1, 2]),
        (spaces.Box(0, 255, (1,), np.uint8), list(range(256))),
    ],
    ids=repr,
)
def test_integers_are_the_nearest(box: spaces.Box, numbers: list[int]) -> None:
    """Truncated, the highest would be reached by no action inside the bounds, and 0 from both sides."""
    spec, ends = action_spec(box), np.linspace(-1, 1, 2001, dtype=np.float32)
    reached = [int(spec.to_env(np.full(1, end))[0]) for end in ends]
    expected = numbers[0] + (ends.astype(np.float64) + 1) / 2 * (numbers[-1] - numbers[0])
    assert sorted(set(reached)) == numbers
    assert np.abs(reached - expected).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("space", [spaces.Discrete(3, start=-7), spaces.MultiDiscrete([2, 4], start=[5, -1])])
def test_sampled_actions_reach_the_whole_action_space(space: spaces.Space[Any]) -> None:
    """All actions of the space are reached, and no other."""
    spec, rng = action_spec(space), np.random.default_rng(0)
    reached = {np.asarray(spec.to_env(stored)).tobytes() for stored in spec.sample(rng, 200)}
    assert all(space.contains(spec.to_env(stored)) for stored in spec.sample(rng, 50))
    assert len(reached) == np.prod(spec.sizes)
