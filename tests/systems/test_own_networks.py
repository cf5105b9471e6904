"""The user's own network, by callable and by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import own_networks
import pytest
from torch import nn

import veldt
from run_state import SMALL, assert_same_run, newest

SETTINGS = {name: value for name, value in SMALL.items() if name != "hidden"} | {"env_backend": "in-process"}


def train(run: Path, **settings: Any) -> veldt.Run:
    return veldt.train(
        "ppo", run_dir=run, quiet=True, **({"steps": 192, "env": "CartPole-v1"} | SETTINGS | settings)
    )


def test_callable_and_name_are_the_same_run(tmp_path: Path) -> None:
    train(tmp_path / "callable", network=own_networks.flat)
    train(tmp_path / "name", network="own_networks:flat")
    assert_same_run(tmp_path / "callable", tmp_path / "name")
    shapes = {name: array.shape for name, array in newest(tmp_path / "name").groups["weights"].items()}
    assert (12, 4) in shapes.values(), shapes
    config = json.loads((tmp_path / "callable" / "config.json").read_text())
    assert config["resolved"]["network"]["network"] == "own_networks:flat"


def test_loaded_and_resumed_by_its_name(tmp_path: Path) -> None:
    train(tmp_path / "whole", network=own_networks.flat, steps=320)
    run = train(tmp_path / "run", network=own_networks.flat, steps=320, checkpoint_every=64, until=None)
    for checkpoint in sorted((run.path / "checkpoints").iterdir())[1:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    veldt.resume(run.path, quiet=True)
    assert_same_run(tmp_path / "whole", run.path)
    assert veldt.load(run.path).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)


def test_resume_requires_a_closure_to_be_passed_again(tmp_path: Path) -> None:
    width = 9

    def wide(shape: tuple[int, ...]) -> nn.Module:
        return nn.Linear(shape[0], width)

    run = train(tmp_path / "run", network=wide)
    for again in (veldt.load, veldt.resume):
        with pytest.raises(veldt.UsageError, match="callable that cannot be imported by name: pass it again"):
            again(run.path)
    assert veldt.load(run.path, network=wide).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    assert veldt.resume(run.path, network=wide, quiet=True, steps=256).reason == "steps"


def test_a_network_for_dict_observations(tmp_path: Path) -> None:
    run = train(tmp_path / "run", env="environments:dictionary", network=own_networks.OfFields)
    names = {name for name in newest(run.path).groups["weights"] if "body-speed" in name}
    assert names


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            own_networks.too_many_axes,
            "returned .2, 2, 2. for a batch of 2 observations: it must return features",
        ),
        (own_networks.no_module, "network own_networks:no_module returned str: it must return an nn.Module"),
        (3, "network is 3: it must be a name, 'module:function' or a callable"),
        ("own_networks:flatt", "no network 'own_networks:flatt'"),
    ],
)
def test_wrong_networks_are_refused(network: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError, match=sentence):
        train(tmp_path / "run", network=network)
    assert not (tmp_path / "run").exists()


def test_a_module_that_is_returned_twice_is_refused(tmp_path: Path) -> None:
    """Networks that share it would learn from, and be changed by, each other: those of an evaluation, too."""
    module = nn.Linear(4, 8)
    with pytest.raises(veldt.UsageError, match="returned the same module as in an earlier call"):
        train(tmp_path / "run", network=lambda shape: module)
    assert not (tmp_path / "run").exists()


def with_dropout(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 16), nn.BatchNorm1d(16), nn.Dropout(0.5))


def test_modules_are_in_evaluation_mode_outside_of_training(tmp_path: Path) -> None:
    """Else dropout would blur the policy, and the statistics of a batch be those of whoever is evaluated beside."""
    agent = veldt.load(train(tmp_path / "run", network=with_dropout).path)
    one, other = np.full(4, 0.1, np.float32), np.full(4, -1.0, np.float32)
    first = agent.distribution(one)["probabilities"]
    assert np.array_equal(first, agent.distribution(one)["probabilities"])
    assert np.allclose(first, agent.distribution(np.stack([one, other]))["probabilities"][0], atol=1e-6)
    batch_norms = [module for module in agent.network.modules() if isinstance(module, nn.BatchNorm1d)]
    assert batch_norms and all(int(one.num_batches_tracked or 0) > 0 for one in batch_norms)
    before = [one.num_batches_tracked for one in batch_norms]
    assert agent.act(one) in (0, 1)
    assert [one.num_batches_tracked for one in batch_norms] == before


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            "own_networks:of_other_size",
            r"failed on the inputs float32 \[2, 4\]: RuntimeError: mat1 and mat2",
        ),
        ("own_networks:confused", r"failed when it was made for the shape \(4,\): TypeError: "),
    ],
)
def test_an_error_in_a_network_names_the_network(network: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(veldt.NetworkError, match=f"network {network} {sentence}") as caught:
        train(tmp_path / "run", network=network)
    assert "own_networks.py" in caught.value.details or "of_other_size" in network
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("network", [own_networks.flat, "own_networks:flat"])
def test_a_users_network_computes_in_fp32(network: Any, tmp_path: Path) -> None:
    """A linear layer of bf16 weights would refuse float32 vectors, and veldt does not know the layers."""
    with pytest.raises(veldt.UsageError, match="--precision is bf16, and what your own network does"):
        train(tmp_path / "run", network=network, precision="bf16")
    assert not (tmp_path / "run").exists()


def with_batch_norm(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 16), nn.BatchNorm1d(16))


def test_an_error_in_torchs_modules_names_the_network(tmp_path: Path) -> None:
    """The traceback has no line of the user's, because nn.Sequential calls the layers."""
    with pytest.raises(
        veldt.NetworkError,
        match=r"network test_own_networks:with_batch_norm raised in _BatchNorm.forward: ValueError: Expected more than",
    ):
        train(tmp_path / "run", network=with_batch_norm, num_envs=1)
