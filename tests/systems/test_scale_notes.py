"""Warnings of numbers in a run's first steps from which networks learn slowly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import veldt
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Trajectory
from veldt.networks.own import NO_PARTS, OwnParts
from veldt.recipes.configure import configure
from veldt.systems.roles.scale_notes import scale_notes

VECTOR = ArraySpec((2,), "float32")
CELLS = ArraySpec((7, 7, 3), "uint8", largest=255.0)
PLANES = ArraySpec((7, 7, 3), "uint8", largest=1.0)


def notes(
    field: ArraySpec,
    number: float,
    reward: float,
    recipe: str = "ppo",
    own: OwnParts = NO_PARTS,
    **given: Any,
) -> list[str]:
    """What is said of steps with this number among the observations, and this reward."""
    slot = Trajectory(EnvSpec({"": field}, ActionSpec("discrete", sizes=(2,), start=(0,))), 3, 2, None)
    slot.valid[:] = True
    slot.reward[1, 1] = reward
    slot.observation[""][2, 1] = number
    config = configure(recipe, "CartPole-v1", {}, None, own, given).config
    return list(scale_notes(slot, config, config.make_algorithm(slot.spec.action)))


@pytest.mark.parametrize(
    ("field", "number", "said"),
    [
        (VECTOR, -1e4, "the observations have numbers as large as 10,000, .* take --normalise-observations"),
        (VECTOR, 90.0, None),
        (CELLS, 10, r"no number above 10 so far, .* by 255, .* as in Box\(0, 10, \(7, 7, 3\), np.uint8\)"),
        (CELLS, 200, None),
        (CELLS, 0, None),
        (PLANES, 1, None),
        (PLANES, 255, r"as large as 255, .* divide them by 1, .* as in Box\(0, 255, \(7, 7, 3\), np.uint8\)"),
    ],
)
def test_observations_are_named_with_what_to_do(field: ArraySpec, number: float, said: str | None) -> None:
    found = notes(field, number, 1.0)
    assert len(found) == (said is not None)
    assert said is None or re.search(said, found[0])


def test_nothing_is_said_of_what_is_normalised_clipped_or_left_to_an_own_network() -> None:
    assert not notes(VECTOR, 1e4, 1.0, normalise_observations=True)
    assert not notes(VECTOR, 1.0, 1e3, normalise_rewards=True)
    assert not notes(VECTOR, 1.0, 1e3, clip_rewards=True)
    assert not notes(VECTOR, 1e4, 1.0, own=OwnParts(network="mine:network"))


@pytest.mark.parametrize(
    ("recipe", "reward", "said"),
    [
        ("ppo", 1e3, "as large as 1,000 so far, .* take --normalise-rewards"),
        ("a2c", -1e-3, "no larger than 0.001 so far, .* take --normalise-rewards"),
        ("dqn", 1e3, r"as large as 1,000 .* in the environment \(gymnasium.wrappers.TransformReward\)"),
        ("impala", 1e3, "as large as 1,000 .* take --normalise-rewards"),
        ("ppo", 0.0, None),
        ("ppo", 100.0, None),
        ("rainbow", 1e3, None),  # the learner speaks of its atoms
    ],
)
def test_rewards_are_named_with_what_to_do(recipe: str, reward: float, said: str | None) -> None:
    found = notes(VECTOR, 1.0, reward, recipe)
    assert len(found) == (said is not None)
    assert said is None or re.search(said, found[0])


def large_rewards() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 1e3 * reward)


# Of several actors, the first may start when the others have made all steps of so short a run.
@pytest.mark.parametrize(("recipe", "actors"), [("ppo", {}), ("impala", {"actors": 1}), ("ga3c", {})])
def test_a_run_says_it_once_and_records_it(
    recipe: str, actors: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"steps": 256, "num_envs": 4, "hidden": (8,), "log": "none", **actors}
    run = veldt.train(recipe, env=large_rewards, run_dir=tmp_path / "run", **settings)
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("warning: rewards are as large as 1,000 so far") == 1
    assert '"warning"' in (run.path / "events.jsonl").read_text(encoding="utf-8")
