"""The normaliser in front of a network: which observations it changes, and where its statistics are."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from specs import ATARI, BOX, VECTOR, single, spec

from veldt.agent import make_network
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.exchange.weights import SharedWeights
from veldt.functional.moments import Moments
from veldt.networks.flat import FlatParameters
from veldt.networks.normaliser import NAME, normaliser_of
from veldt.networks.precision import Network
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.shared import Layout

ONE_HOT = ArraySpec((4,), "float32", is_box=False)
MOMENTS = Moments(100.0, np.array([1.0, -2.0, 1e4, 0.0, 5.0]), np.array([4.0, 1.0, 1e-2, 0.0, 25.0]))
GIVEN = torch.tensor([[3.0, -2.5, 1e4 + 0.05, 0.0, 1000.0], [1.0, 9.0, 1e4, 1e-5, -1000.0]])
EXPECTED = torch.tensor([[1.0, -0.5, 0.5, 0.0, 10.0], [0.0, 10.0, 0.0, 0.1, -10.0]])


def network(of: EnvSpec, recipe: str = "ppo", **settings: object) -> Network:
    config = with_settings(
        find(recipe).config("Pendulum-v1"), {"normalise_observations": True, "hidden": (8,)} | settings
    )
    return make_network(config, of)


def with_moments(own: Network, moments: Moments = MOMENTS) -> Network:
    found = normaliser_of(own)
    assert found is not None
    found.store([moments for _ in found.statistics()])
    return own


def test_observations_are_centred_scaled_and_clipped() -> None:
    normaliser = normaliser_of(with_moments(network(single(VECTOR, BOX))))
    assert normaliser is not None
    torch.testing.assert_close(normaliser(GIVEN), EXPECTED, rtol=1e-2, atol=1e-6)
    assert normaliser(GIVEN).dtype == torch.float32


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("recipe", ["ppo", "ddpg"])
def test_the_network_is_the_same_behind_it(recipe: str, shared: bool) -> None:
    """It has the parameters, names included, of a network without one, which gets normalised observations."""
    settings = {"shared": shared} if recipe == "ppo" else {}
    own = with_moments(network(single(VECTOR, BOX), recipe, **settings))
    plain = network(single(VECTOR, BOX), recipe, normalise_observations=False, **settings)
    assert [name for name, _ in own.named_parameters()] == [name for name, _ in plain.named_parameters()]
    normaliser = normaliser_of(own)
    assert normaliser is not None and normaliser_of(plain) is None
    for got, wanted in zip(own(GIVEN), plain(normaliser(GIVEN)), strict=True):
        assert torch.equal(got, wanted)


def test_without_data_only_the_clipping_changes_observations() -> None:
    normaliser = normaliser_of(network(single(VECTOR, BOX)))
    assert normaliser is not None
    assert torch.equal(normaliser(GIVEN), GIVEN.clamp(-10.0, 10.0))


def test_images_and_discrete_values_stay_as_they_are() -> None:
    own = network(spec(BOX, camera=ATARI, gear=ONE_HOT, body=VECTOR))
    normaliser = normaliser_of(with_moments(own))
    assert normaliser is not None and [name for name, _ in normaliser.statistics()] == ["body"]
    given = {"camera": torch.full((2, *ATARI.network_shape), 7, dtype=torch.uint8), "gear": torch.eye(4)[:2]}
    normalised = normaliser(given | {"body": GIVEN})
    assert all(normalised[name] is given[name] for name in given)
    torch.testing.assert_close(normalised["body"], EXPECTED, rtol=1e-2, atol=1e-6)
    own(given | {"body": GIVEN})


@pytest.mark.parametrize("field", [ATARI, ONE_HOT], ids=["images", "one-hot"])
def test_no_normaliser_without_a_field_for_it(field: ArraySpec) -> None:
    assert normaliser_of(network(single(field, BOX))) is None


def test_a_compiled_forward_pass_normalises() -> None:
    """Also with statistics that change after it was compiled."""
    own = network(single(VECTOR, BOX))
    forward = torch.compile(own, backend="eager")
    forward(GIVEN)
    with_moments(own)
    for compiled, eager in zip(forward(GIVEN), own(GIVEN), strict=True):
        torch.testing.assert_close(compiled, eager)


def test_a_copy_of_a_network_has_statistics_of_its_own() -> None:
    own = with_moments(network(single(VECTOR, BOX)))
    other = copy.deepcopy(own)
    with_moments(own, Moments(1.0, np.zeros(5), np.ones(5)))
    normaliser = normaliser_of(other)
    assert normaliser is not None
    torch.testing.assert_close(normaliser(GIVEN), EXPECTED, rtol=1e-2, atol=1e-6)
    assert not torch.equal(own(GIVEN)[1], other(GIVEN)[1])


def test_statistics_are_published_with_the_weights() -> None:
    learner, actor = (FlatParameters(network(single(VECTOR, BOX))) for _ in range(2))
    arrays = learner.arrays()
    names = [name for name in arrays if name.startswith(NAME)]
    assert len(names) == 3 and all(arrays[name].dtype == np.float64 for name in names)
    weights = SharedWeights(
        {name: Layout(array.shape, str(array.dtype)) for name, array in arrays.items()}, None
    )
    learner_network = network(single(VECTOR, BOX))
    learner = FlatParameters(learner_network)
    with_moments(learner_network)
    weights.publish(1, learner.arrays())
    weights.pull_if_newer(-1, actor.arrays())
    for name in names:
        np.testing.assert_array_equal(actor.arrays()[name], learner.arrays()[name])
    assert float(actor.tensors()[f"{NAME}.fields.0.count"]) == MOMENTS.count


def test_a_target_network_gets_them_unchanged() -> None:
    online, target = (network(single(VECTOR, BOX), "ddpg") for _ in range(2))
    ours, theirs = FlatParameters(online), FlatParameters(target)
    with_moments(online)
    theirs.polyak_update(ours, 0.01, [slice(0, len(ours.fp32_params))])
    for name, tensor in ours.tensors().items():
        if name.startswith(NAME):
            assert torch.equal(theirs.tensors()[name], tensor)


def test_the_statistics_of_several_fields_are_stored_and_read_in_their_order() -> None:
    normaliser = normaliser_of(network(spec(BOX, body=VECTOR, wind=ArraySpec((2,), "float32", is_box=True))))
    assert normaliser is not None
    rng = np.random.default_rng(0)
    stored = [Moments.of(rng.normal(3.0, 2.0, (7, *field.shape))) for _, field in normaliser.statistics()]
    normaliser.store(stored)
    for (_, field), own, found in zip(normaliser.statistics(), stored, normaliser.moments(), strict=True):
        assert found.numbers() == own.numbers() and found.mean.shape == field.shape
        assert field.count.item() == 7.0
        assert np.array_equal(field.mean.numpy(), own.mean)
        assert np.array_equal(field.variance.numpy(), own.variance)
