"""Policy and value share a torso exactly if the setting says so, whatever the network is."""

from __future__ import annotations

import dataclasses

import pytest
from specs import ATARI, VECTOR, single
from torch import nn

from veldt.agent import make_network
from veldt.config.train_config import NetworkConfig
from veldt.envs.spec import ArraySpec
from veldt.networks.build import TorsoFactory
from veldt.networks.own import OwnParts
from veldt.recipes import RECIPES


def own_torso(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 3))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    "given", ["auto", "mlp", f"{__name__}:own_torso", own_torso], ids=["auto", "mlp", "named", "itself"]
)
def test_for_vectors(given: str | TorsoFactory, shared: bool) -> None:
    """A run trained with a callable is loaded by the callable's name: both must be the same network."""
    config = RECIPES["ppo"].config("CartPole-v1")
    learn = dataclasses.replace(config.learn, shared=shared)
    config = dataclasses.replace(config, learn=learn, network=NetworkConfig(hidden=(4,)))
    assert (make_network(config, single(VECTOR), OwnParts(given)).value_torso is None) == shared


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("field", [ATARI, ArraySpec((24, 20, 3), "uint8")], ids=["atari", "colour"])
def test_for_images(field: ArraySpec, shared: bool) -> None:
    config = RECIPES["a2c"].config("ALE/Pong-v5")
    config = dataclasses.replace(config, learn=dataclasses.replace(config.learn, shared=shared))
    assert (make_network(config, single(field)).value_torso is None) == shared


@pytest.mark.parametrize(
    ("env", "shared"), [("ALE/Pong-v5", True), ("CartPole-v1", False)], ids=["atari", "small"]
)
@pytest.mark.parametrize("recipe", ["a2c", "ppo"])
def test_recipes_share_on_atari_only(recipe: str, env: str, shared: bool) -> None:
    assert RECIPES[recipe].config(env).learn.shared == shared


def test_first_weights_are_a_function_of_the_seed() -> None:
    config = RECIPES["ppo"].config("CartPole-v1")
    other = dataclasses.replace(config, run=dataclasses.replace(config.run, seed=2))
    first, again, different = (
        make_network(c, single(VECTOR)).torso.layers[0].weight for c in (config, config, other)
    )
    assert (first == again).all()
    assert (first != different).any()
