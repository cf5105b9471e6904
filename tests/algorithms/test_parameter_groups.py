"""Groups of the flat vector: each parameter is updated by its own rule alone, for any partition of the vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm, Loss
from veldt.algorithms.groups import ParameterGroup, TargetNetwork
from veldt.errors import UsageError
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.functional.updates import Adam, RMSProp
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.learning.optimiser import GroupedRule, LocalOptimiser
from veldt.networks.flat import FlatParameters

GROUPS = (
    ParameterGroup("rest", Adam()),
    ParameterGroup("a", Adam(), ("a.",), every=2),
    ParameterGroup("b", RMSProp(0.9), ("b.", "c.bias")),
)
ADAM = Adam()
RATES = {"rest": 0.1, "a": 0.03, "b": 0.01}


def network() -> nn.ModuleDict:
    torch.manual_seed(0)
    return nn.ModuleDict({name: nn.Linear(4, 3) for name in "abcd"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ParameterGroup("a", torch.optim.Adam),  # type: ignore[arg-type]
            "group a has the rule <class 'torch.optim.adam.Adam'>: it must be an update rule of veldt.functional",
        ),
        (lambda: ParameterGroup("a", ADAM, every=0), "group a moves every 0 updates: give 1 or more"),
        (
            lambda: ParameterGroup("a", ADAM, max_grad_norm=-1.0),
            "group a has a max_grad_norm of -1: it must be 0",
        ),
        (lambda: TargetNetwork(every=0, tau=1.0), "moves every 0 updates: give 1 or more"),
        (lambda: TargetNetwork(every=1, tau=0.0), r"tau of 0.0: it must be in \(0, 1\]"),
        (lambda: GroupedRule((), FlatParameters(network())), "groups are empty"),
        (lambda: Loss.of_groups({}), "got no loss"),
        (
            lambda: Loss.of_groups({"a": torch.ones(3)}),
            r"group a has the shape \[3\]: it must be a single number",
        ),
    ],
)
def test_declarations_that_are_refused(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


class Grouped:
    """Of an algorithm, its groups."""

    groups = GROUPS


def gradients(size: int, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def group_name(parameter: str) -> str:
    return (
        "a"
        if parameter.startswith("a.")
        else "b"
        if parameter.startswith("b.") or parameter == "c.bias"
        else "rest"
    )


def due(update: int) -> dict[str, float]:
    return {name: rate for name, rate in RATES.items() if name != "a" or update % 2 == 0}


def expected(count: int) -> dict[str, Tensor]:
    """One parameter after the other, each with its rule."""
    own = FlatParameters(network())
    found = {}
    rules = {group.name: group.rule for group in GROUPS}
    parts = {name: tensor.clone().flatten() for name, tensor in own.tensors().items()}
    states = {name: rules[group_name(name)].state(part) for name, part in parts.items()}
    none = torch.empty(0, dtype=torch.bfloat16)
    for update, gradient_P in enumerate(gradients(len(own.fp32_params), count), 1):
        for name, part in own.split(gradient_P).items():
            group = group_name(name)
            if group in due(update):
                rules[group].apply(parts[name], part.clone().flatten(), states[name], RATES[group], none)
    for name, tensor in own.tensors().items():
        found[name] = parts[name].view(tensor.shape)
    return found


def local(own: FlatParameters) -> Any:
    return LocalOptimiser(Grouped(), own)  # type: ignore[arg-type]


def central(own: FlatParameters, local_steps: int = 1) -> Any:
    state = GroupedRule(GROUPS, own).state(own.fp32_params)
    initial = {name: value.numpy().copy() for name, value in {PARAMETERS: own.fp32_params, **state}.items()}
    store = CentralStore(CentralStoreSpec(initial, 5, 60.0), None)
    algorithm: Algorithm = Grouped()  # type: ignore[assignment]
    return CentralOptimiser(algorithm, own, store.client(0), local_steps)


@pytest.mark.parametrize(
    "make",
    [local, central, lambda own: central(own, 3)],
    ids=["here", "in a store of five chunks", "three local steps"],
)
@pytest.mark.parametrize("low", [False, True], ids=["fp32", "bf16"])
def test_each_parameter_is_updated_by_its_groups_rule(make: Any, low: bool) -> None:
    module = network()
    own = FlatParameters(module, [module["d"], module["b"]] if low else [])
    optimiser = make(own)
    # The vector is in another order where parts compute in bf16: the gradients of a parameter are the same.
    plain = FlatParameters(network())
    for update, gradient_P in enumerate(gradients(len(own.fp32_params), 12), 1):
        by_name = plain.split(gradient_P)
        mine_P = torch.cat([by_name[name].flatten() for name in own.names])
        optimiser.apply(mine_P, due(update))
    for name, tensor in expected(12).items():
        torch.testing.assert_close(own.tensors()[name], tensor, rtol=1e-5, atol=1e-6)
    if low:
        assert torch.equal(module["d"].weight.float(), own.tensors()["d.weight"].bfloat16().float())


def test_counters_advance_once_in_an_update() -> None:
    own = FlatParameters(network())
    optimiser = local(own)
    for update, gradient_P in enumerate(gradients(len(own.fp32_params), 5), 1):
        optimiser.apply(gradient_P, due(update))
    assert float(optimiser.state["count.rest"]) == 5.0 and float(optimiser.state["count.a"]) == 2.0
    assert "count.b" not in optimiser.state


def test_of_a_part_without_parameters_of_a_group_its_updates_count_too() -> None:
    """Each shard of a parameter server has the counters of all groups, of which a checkpoint takes one shard's."""
    own = FlatParameters(network())
    rule = GroupedRule(GROUPS, own)
    part = own.fp32_params[20:30].clone()
    state = {
        name: value[20:30] if value.ndim else value for name, value in rule.state(own.fp32_params).items()
    }
    rule.apply(20, part, torch.ones(10), state, RATES, torch.empty(0, dtype=torch.bfloat16))
    assert {name: float(value) for name, value in state.items() if not value.ndim} == {
        "count.rest": 1.0,
        "count.a": 1.0,
    }


def test_the_gradient_of_a_group_has_a_limit_of_its_own() -> None:
    groups = (ParameterGroup("rest", Adam(), max_grad_norm=0.5), ParameterGroup("b", Adam(), ("b.",)))
    own = FlatParameters(network())
    (gradient_P,) = gradients(len(own.fp32_params), 1)
    before = {name: part.clone() for name, part in own.split(gradient_P).items()}
    GroupedRule(groups, own).clip(gradient_P)
    after = own.split(gradient_P)
    rest = torch.cat([part.flatten() for name, part in after.items() if not name.startswith("b.")])
    assert float(rest.norm()) == pytest.approx(0.5, rel=1e-4)
    assert all(torch.equal(after[name], before[name]) == name.startswith("b.") for name in before)


def test_learning_rates() -> None:
    groups = (
        ParameterGroup("a", Adam(), ("a.",), learning_rate=lambda progress: 1.0 - progress),
        ParameterGroup("rest", Adam()),
    )
    rule = GroupedRule(groups, FlatParameters(network()))
    assert rule.rates(("a", "rest"), 0.25, 0.5) == {"a": 0.75, "rest": 0.5}
    assert rule.rates(("rest",), 0.25, 0.5) == {"rest": 0.5}


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([ParameterGroup("a", ADAM, ("a.",))], r"b\.weight belongs to no parameter group, of a \('a\.'\)"),
        ([ParameterGroup("x", ADAM), ParameterGroup("y", ADAM, ("e.",))], "the parameter group y has no"),
        ([ParameterGroup("x", ADAM), ParameterGroup("x", ADAM, ("a.",))], "groups have the same name"),
    ],
)
def test_groups_that_do_not_fit_the_network(groups: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        GroupedRule(groups, FlatParameters(network()))


def test_losses_share_a_forward_pass_and_reach_their_groups_alone() -> None:
    module = network()
    own = FlatParameters(module)
    features = module["a"](torch.ones(2, 4))
    losses = {"b": features.sum() + module["b"](torch.ones(2, 4)).sum(), "rest": (features * 2.0).sum()}
    members = {"b": [own.names.index("b.weight"), own.names.index("b.bias")], "rest": [0, 1, 4, 5, 6, 7]}
    own.gradient.fill_(7.0)
    own.backward_by_group(losses, members)
    found = own.split(own.gradient)
    assert np.array_equal(found["b.bias"], [2.0, 2.0, 2.0]) and np.array_equal(
        found["a.bias"], [4.0, 4.0, 4.0]
    )
    assert not found["c.weight"].any()
    own.gradient.fill_(7.0)
    own.backward_by_group({"b": module["b"](torch.ones(2, 4)).sum()}, members)
    found = own.split(own.gradient)
    assert found["b.weight"].any() and not found["a.weight"].any() and not found["d.bias"].any()
