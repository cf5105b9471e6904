"""Heads of value networks: shapes and sizes, dueling streams, noise, precision."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from specs import ATARI, COLOUR, VECTOR, observations, single, spec
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.networks.build import UserTorso, build_torso
from veldt.networks.noisy import NoisyLinear
from veldt.networks.precision import apply_precision
from veldt.networks.q_network import QNetwork
from veldt.networks.torsos import dqn_net

CPU = torch.device("cpu")
ACTIONS, ROWS = 6, 7
DUELING = pytest.mark.parametrize("dueling", [True, False], ids=["dueling", "single"])
NOISY = pytest.mark.parametrize("noisy", [True, False], ids=["noisy", "plain"])
ATOMS = pytest.mark.parametrize("atoms", [1, 51])


def network(wanted: EnvSpec, *, atoms: int = 1, dueling: bool, noisy: bool = False) -> QNetwork:
    torch.manual_seed(0)
    build = functools.partial(build_torso, "auto", wanted, (32, 16), last_layer=False, activation="relu")
    return QNetwork(build, ACTIONS, atoms=atoms, dueling=dueling, noisy=noisy)


def noise_for(own: QNetwork, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, own.noise_width, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("field", [VECTOR, ATARI], ids=["vector", "atari"])
@DUELING
@NOISY
@ATOMS
def test_outputs_are_float32(
    field: ArraySpec, atoms: int, dueling: bool, noisy: bool, precision: str
) -> None:
    own = network(single(field), atoms=atoms, dueling=dueling, noisy=noisy)
    apply_precision(own, precision, CPU)
    for noise in [None, noise_for(own), noise_for(own, 1)] if noisy else [None]:
        output = own(observations(field, ROWS), noise)
        assert output.shape == ((ROWS, ACTIONS) if atoms == 1 else (ROWS, ACTIONS, atoms))
        assert output.dtype == torch.float32
    rounded = {name for name, p in own.named_parameters() if p.dtype == torch.bfloat16}
    last = {name for name, _ in own.named_parameters() if ".last." in name}
    everything = {name for name, _ in own.named_parameters()}
    assert rounded == (everything - last if precision == "bf16" else set())
    assert last


@DUELING
@NOISY
def test_bf16_is_near_fp32(dueling: bool, noisy: bool) -> None:
    exact, rounded = (network(single(ATARI), atoms=51, dueling=dueling, noisy=noisy) for _ in range(2))
    apply_precision(rounded, "bf16", CPU)
    noise = noise_for(exact) if noisy else None
    one, other = exact(observations(ATARI, ROWS), noise), rounded(observations(ATARI, ROWS), noise)
    assert not torch.equal(one, other)
    assert float((one - other).detach().norm() / one.detach().norm()) < 0.02


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_dqn_has_the_size_of_the_paper() -> None:
    """1,684,128 up to the hidden layer (Mnih et al. 2015), and Pong's 6 actions."""
    own = QNetwork(lambda: dqn_net((4, 84, 84), last_layer=False), 6, dueling=False, noisy=False)
    assert parameters(own) == 1_684_128 + 512 * 6 + 6
    assert own.noise_width == 0


def test_each_stream_of_a_dueling_network_has_a_hidden_layer_of_its_own() -> None:
    own = QNetwork(lambda: dqn_net((4, 84, 84), last_layer=False), 6, dueling=True, noisy=False)
    hidden = 3136 * 512 + 512
    assert parameters(own) == 77_984 + 2 * hidden + (512 * 6 + 6) + (512 + 1)


def test_rainbow_has_a_deviation_for_every_weight_of_its_streams() -> None:
    own = QNetwork(lambda: dqn_net((4, 84, 84), last_layer=False), 6, atoms=51, dueling=True, noisy=True)
    streams = 2 * (3136 * 512 + 512) + (512 + 1) * 6 * 51 + (512 + 1) * 51
    assert parameters(own) == 77_984 + 2 * streams
    assert own.noise_width == 2 * (3136 + 512) + (512 + 6 * 51) + (512 + 51)


@DUELING
def test_heads_follow_a_users_own_module_directly(dueling: bool) -> None:
    build = functools.partial(
        build_torso, lambda shape: nn.Linear(shape[0], 9), single(VECTOR), (32,), last_layer=False
    )
    own = QNetwork(build, ACTIONS, dueling=dueling, noisy=True)
    assert isinstance(own.torso, UserTorso)
    assert own(observations(VECTOR, ROWS), noise_for(own)).shape == (ROWS, ACTIONS)
    assert own.noise_width == (9 + ACTIONS) + (9 + 1 if dueling else 0)
    assert own.low_precision_parts() == [own.torso]


def test_fields_of_a_dict_are_found_by_name() -> None:
    own = network(spec(camera=COLOUR, velocity=VECTOR), dueling=True)
    given = {"camera": observations(COLOUR, ROWS), "velocity": observations(VECTOR, ROWS)}
    assert own(given).shape == (ROWS, ACTIONS)
    assert own.advantage.last.in_features == 256 + 16


@ATOMS
def test_the_mean_of_dueling_values_is_the_value_stream(atoms: int) -> None:
    own = network(single(VECTOR), atoms=atoms, dueling=True)
    assert own.value is not None
    output = own(observations(VECTOR, ROWS)).reshape(ROWS, ACTIONS, atoms)
    value = own.value(own.torso(observations(VECTOR, ROWS)), None)
    torch.testing.assert_close(output.mean(1), value)
    assert float(output.detach().std(1).min()) > 0


@ATOMS
def test_a_constant_in_the_advantages_changes_nothing_and_in_the_value_everything(atoms: int) -> None:
    own, given = network(single(VECTOR), atoms=atoms, dueling=True), observations(VECTOR, ROWS)
    assert own.value is not None
    before = own(given)
    with torch.no_grad():
        own.advantage.last.bias.add_(3.0)
    torch.testing.assert_close(own(given), before)
    with torch.no_grad():
        own.value.last.bias.add_(3.0)
    torch.testing.assert_close(own(given), before + 3.0)


def test_advantages_are_of_actions_not_atoms() -> None:
    """Raising one action's logits raises that action's against the others', the same in every atom."""
    own, given = network(single(VECTOR), atoms=5, dueling=True), observations(VECTOR, ROWS)
    before = own(given)
    with torch.no_grad():
        own.advantage.last.bias[2 * 5 : 3 * 5].add_(6.0)
    change = (own(given) - before).mean((0, 2))
    torch.testing.assert_close(change, torch.tensor([-1.0, -1.0, 5.0, -1.0, -1.0, -1.0]))


def unscaled(own: QNetwork, given: Tensor) -> Tensor:
    features = own.torso(given)
    advantage = own.advantage(features, None)
    if own.value is None:
        return advantage
    return own.value(features, None) + advantage - advantage.mean(1, keepdim=True)


@DUELING
def test_gradients_of_two_streams_enter_the_body_scaled(dueling: bool) -> None:
    own, given = network(single(VECTOR), dueling=dueling), observations(VECTOR, ROWS)
    torch.testing.assert_close(own(given), unscaled(own, given))
    names, weights = zip(*own.named_parameters(), strict=True)
    scaled = torch.autograd.grad(own(given).square().sum(), weights)
    plain = torch.autograd.grad(unscaled(own, given).square().sum(), weights)
    for name, mine, theirs in zip(names, scaled, plain, strict=True):
        factor = 1 / math.sqrt(2) if dueling and name.startswith("torso.") else 1.0
        torch.testing.assert_close(mine, factor * theirs, msg=name)
        assert mine.any()


@DUELING
def test_rows_have_their_own_noise(dueling: bool) -> None:
    own, given = network(single(VECTOR), dueling=dueling, noisy=True), observations(VECTOR, ROWS)
    noise = noise_for(own)
    together = own(given, noise)
    for n in range(ROWS):
        torch.testing.assert_close(together[n], own(given[n : n + 1], noise[n : n + 1])[0])
    torch.testing.assert_close(own(given, noise[:1]), own(given, noise[:1].expand(ROWS, -1)))
    assert not torch.allclose(own(given, noise[:1])[1:], together[1:])


@DUELING
def test_every_number_of_the_noise_changes_the_output(dueling: bool) -> None:
    own = network(single(VECTOR), dueling=dueling, noisy=True)
    with torch.no_grad():  # every unit is active
        for layer in own.modules():
            if isinstance(layer, nn.Linear | NoisyLinear):
                layer.bias.fill_(50.0 if isinstance(layer, NoisyLinear) else 5.0)
    noise = noise_for(own, 1).requires_grad_()
    weights = torch.arange(1.0, ACTIONS + 1)
    (own(observations(VECTOR, ROWS), noise) @ weights).sum().backward()
    assert noise.grad is not None
    assert (noise.grad != 0).all()


def test_without_noise_the_means_are_used() -> None:
    own, given = network(single(VECTOR), dueling=True, noisy=True), observations(VECTOR, ROWS)
    before = own(given)
    torch.testing.assert_close(own(given, torch.zeros(1, own.noise_width)), before)
    with torch.no_grad():
        for name, parameter in own.named_parameters():
            if name.endswith("_sigma"):
                parameter.fill_(100.0)
    assert torch.equal(own(given), before)


@DUELING
def test_first_values_are_no_larger_than_the_features(dueling: bool) -> None:
    own = network(single(VECTOR), dueling=dueling)
    last = own.advantage.last
    torch.testing.assert_close(last.weight @ last.weight.T, torch.eye(ACTIONS), rtol=0, atol=1e-5)
    assert not last.bias.any()
