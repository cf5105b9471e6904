"""The deterministic policy and its critic: shapes, the layer where the action enters, and no shared parameters."""

from __future__ import annotations

import functools

import pytest
import torch
from specs import ATARI, COLOUR, VECTOR, observations, single, spec
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.networks.build import UserTorso, build_torso
from veldt.networks.deterministic import DeterministicActorCritic
from veldt.networks.precision import apply_precision

CPU = torch.device("cpu")
SIZE, ROWS = 3, 7


def network(wanted: EnvSpec, hidden: tuple[int, ...] = (32, 16)) -> DeterministicActorCritic:
    torch.manual_seed(0)
    build = functools.partial(build_torso, "auto", wanted, hidden, last_layer=False, activation="relu")
    return DeterministicActorCritic(build, SIZE)


def actions() -> Tensor:
    return 2 * torch.rand(ROWS, SIZE, generator=torch.Generator().manual_seed(1)) - 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("hidden", [(8,), (32, 16)])
@pytest.mark.parametrize("field", [VECTOR, ATARI], ids=["vector", "atari"])
def test_outputs_are_float32(field: ArraySpec, hidden: tuple[int, ...], precision: str) -> None:
    own = network(single(field), hidden)
    apply_precision(own, precision, CPU)
    policy, value = own(observations(field, ROWS)), own(observations(field, ROWS), actions())
    assert policy.shape == (ROWS, SIZE)
    assert value.shape == (ROWS,)
    assert policy.dtype == value.dtype == torch.float32
    for name, parameter in own.named_parameters():
        rounded = precision == "bf16" and ".body." in name
        assert parameter.dtype == (torch.bfloat16 if rounded else torch.float32), name


def test_the_action_enters_the_critics_second_layer() -> None:
    own = network(single(VECTOR), (400, 300))
    shapes = {name: tuple(p.shape) for name, p in own.named_parameters() if name.endswith("weight")}
    assert shapes == {
        "actor.body.layers.0.weight": (400, 5),
        "actor.hidden.weight": (300, 400),
        "actor.last.weight": (SIZE, 300),
        "critic.body.layers.0.weight": (400, 5),
        "critic.hidden.weight": (300, 400 + SIZE),
        "critic.last.weight": (1, 300),
    }


def test_first_actions_and_values_are_near_zero() -> None:
    own = network(single(VECTOR), (400, 300))
    for last in (own.actor.last, own.critic.last):
        for parameter in last.parameters():
            assert 0 < float(parameter.detach().abs().max()) <= 3e-3
    assert float(own.actor.last.weight.detach().abs().max()) > 2.9e-3
    assert float(own(observations(VECTOR, ROWS)).detach().abs().max()) < 0.1
    assert float(own(observations(VECTOR, ROWS), actions()).detach().abs().max()) < 0.1


def test_actions_stay_within_their_bounds() -> None:
    own = network(single(VECTOR))
    with torch.no_grad():
        own.actor.last.weight.mul_(1e5)
    policy = own(observations(VECTOR, ROWS)).detach()
    assert float(policy.abs().max()) == pytest.approx(1.0)


def test_policy_and_value_share_nothing() -> None:
    own = network(single(VECTOR))
    for chosen, output in (
        ("actor.", own(observations(VECTOR, ROWS))),
        ("critic.", own(observations(VECTOR, ROWS), actions())),
    ):
        own.zero_grad()
        output.sum().backward()
        for name, parameter in own.named_parameters():
            assert (parameter.grad is not None) == name.startswith(chosen), name


def test_the_policy_learns_through_the_critic() -> None:
    """∇_θ Q(s, π(s)) (Lillicrap et al. 2016, equation 6), against the chain rule written out."""
    own, given = network(single(VECTOR)), observations(VECTOR, ROWS)
    weights = list(own.actor.parameters())
    through = torch.autograd.grad(own(given, own(given)).sum(), weights)
    action = own(given).detach().requires_grad_()
    (slope,) = torch.autograd.grad(own(given, action).sum(), action)
    for mine, expected in zip(through, torch.autograd.grad(own(given), weights, slope), strict=True):
        assert mine.any()
        torch.testing.assert_close(mine, expected)


def test_values_depend_on_observation_and_action() -> None:
    own = network(single(VECTOR))
    before = own(observations(VECTOR, ROWS), actions())
    assert (own(observations(VECTOR, ROWS), -actions()) != before).all()
    assert (own(-observations(VECTOR, ROWS), actions()) != before).all()


def test_fields_of_a_dict_are_found_by_name() -> None:
    own = network(spec(camera=COLOUR, velocity=VECTOR))
    given = {"camera": observations(COLOUR, ROWS), "velocity": observations(VECTOR, ROWS)}
    assert own(given).shape == (ROWS, SIZE)
    assert own(given, actions()).shape == (ROWS,)


def test_heads_follow_a_users_own_module_directly() -> None:
    def own_body(shape: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], 9), nn.ReLU())

    own = DeterministicActorCritic(
        functools.partial(build_torso, own_body, single(VECTOR), (32,), last_layer=False), SIZE
    )
    assert isinstance(own.torso, UserTorso)
    assert own.actor.last.weight.shape == (SIZE, 9)
    assert own.critic.last.weight.shape == (1, 9 + SIZE)
    assert own(observations(VECTOR, ROWS)).shape == (ROWS, SIZE)
    assert own(observations(VECTOR, ROWS), actions()).shape == (ROWS,)
