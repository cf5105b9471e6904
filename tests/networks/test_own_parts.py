"""The user's own actor, critic, model and core fit their algorithms, or are refused with a sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from specs import BOX, MULTI, VECTOR, single
from torch import Tensor, nn

import own_parts
from veldt.agent import make_network
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import ActionSpec, EnvSpec
from veldt.errors import NetworkError, UsageError
from veldt.learning.optimiser import GroupedRule
from veldt.networks.flat import FlatParameters
from veldt.networks.own import OwnParts
from veldt.networks.own_core import OwnCore, StateLayout, where_reset
from veldt.networks.recurrent import RecurrentForward, recurrent_size_of
from veldt.recipes import find
from veldt.recipes.overrides import with_settings

DISCRETE = ActionSpec("discrete", sizes=(3,), start=(0,))
ONE = ActionSpec("box", low=(-1.0,), high=(1.0,))


def config(recipe: str, **settings: Any) -> TrainConfig:
    return with_settings(find(recipe).config("CartPole-v1"), settings)


def spec(action: ActionSpec) -> EnvSpec:
    return dataclasses.replace(single(VECTOR), action=action)


def made(recipe: str, action: ActionSpec, **parts: Any) -> nn.Module:
    return make_network(config(recipe), spec(action), OwnParts(**parts))


def observations(rows: int) -> Tensor:
    return torch.randn(rows, *VECTOR.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("parts", ["actor", "critic", "actor critic"])
@pytest.mark.parametrize("action", [DISCRETE, BOX], ids=["choices", "numbers"])
@pytest.mark.parametrize("recipe", ["a2c", "ppo", "impala"])
def test_policy_and_value(recipe: str, action: ActionSpec, parts: str) -> None:
    network = made(recipe, action, **{part: getattr(own_parts, part) for part in parts.split()})
    parameters, value = network(observations(7))
    outputs = action.sizes[0] if action.kind == "discrete" else 2 * len(action.low)
    assert parameters.shape == (7, outputs) and value.shape == (7,)
    own = {name for name, module in network.named_children() if not hasattr(module, "torso")}
    assert own == set(parts.split())
    if action.kind == "box":
        assert not parameters[:, len(action.low) :].any(), "standard deviations of 1 at first"
        assert "log_deviation" in dict(network.named_parameters())


def test_an_actor_may_output_the_deviation_of_its_actions() -> None:
    network = made(
        "ppo", BOX, actor=lambda spec: nn.Linear(own_parts.inputs_of(spec), 2 * len(spec.action.low))
    )
    assert "log_deviation" not in dict(network.named_parameters())


def test_an_actor_for_multi_discrete_actions() -> None:
    network = made(
        "ppo", MULTI, actor=lambda spec: nn.Linear(own_parts.inputs_of(spec), sum(spec.action.sizes))
    )
    assert network(observations(3))[0].shape == (3, sum(MULTI.sizes))


@pytest.mark.parametrize("part", ["critic", "model"])
def test_values_of_all_actions(part: str) -> None:
    own = {part: lambda spec: nn.Linear(own_parts.inputs_of(spec), spec.action.sizes[0])}
    assert made("dqn", DISCRETE, **own)(observations(3)).shape == (3, DISCRETE.sizes[0])


def test_distributions_of_all_actions() -> None:
    def logits(spec: EnvSpec) -> nn.Module:
        actions = spec.action.sizes[0]
        return nn.Sequential(
            nn.Linear(own_parts.inputs_of(spec), actions * 101), nn.Unflatten(1, (actions, 101))
        )

    assert made("c51", DISCRETE, critic=logits)(observations(3)).shape == (3, DISCRETE.sizes[0], 101)


@pytest.mark.parametrize(
    "parts",
    [
        {"actor": own_parts.deterministic_actor},
        {"critic": own_parts.ActionCritic},
        {"actor": own_parts.deterministic_actor, "critic": own_parts.ActionCritic},
        {"model": own_parts.Pair},
    ],
    ids=["actor", "critic", "both", "model"],
)
def test_actions_and_their_values(parts: dict[str, Any]) -> None:
    network = made("ddpg", ONE, **parts)
    action = network(observations(5))
    assert action.shape == (5, 1) and float(action.detach().abs().max()) <= 1.0
    assert network(observations(5), action).shape == (5,)
    algorithm = config("ddpg").make_algorithm(ONE)
    flat = FlatParameters(network)
    members = GroupedRule(algorithm.groups, flat).members
    prefixes = [name.removeprefix("model.").partition(".")[0] for name in flat.names]
    named = {group: {prefixes[i] for i in numbers} for group, numbers in members.items()}
    assert named == {"actor": {"actor"}, "critic": {"q" if "model" in parts else "critic"}}


def layer(inputs: int, outputs: int, bias: float = 0.0) -> Any:
    def make(spec: EnvSpec) -> nn.Module:
        made = nn.Linear(inputs, outputs)
        nn.init.constant_(made.bias, bias)
        return made

    return make


REFUSED: dict[str, tuple[str, ActionSpec, dict[str, Any], type[Exception], str]] = {
    "logits": (
        "ppo",
        DISCRETE,
        {"actor": layer(5, 9)},
        UsageError,
        r"returned float32 \[2, 9\] for 2 observations: it must return the policy's parameters \[N, P\], here \[2, 3\]",
    ),
    "value": (
        "ppo",
        DISCRETE,
        {"critic": layer(5, 2)},
        UsageError,
        r"values \[N\] or \[N, 1\], here \[2\] or \[2, 1\]",
    ),
    "means": (
        "ppo",
        BOX,
        {"actor": layer(5, 9)},
        UsageError,
        r"or its means \[N, D\], here \[2, 6\] or \[2, 3\]",
    ),
    "inputs": (
        "ppo",
        DISCRETE,
        {"actor": layer(4, 3)},
        NetworkError,
        r"the inputs float32 \[2, 5\]: RuntimeError",
    ),
    "type": (
        "ppo",
        DISCRETE,
        {"actor": lambda spec: 3},
        UsageError,
        "returned int: it must return an nn.Module",
    ),
    "model": (
        "ppo",
        DISCRETE,
        {"model": own_parts.critic},
        UsageError,
        r"model own_parts:critic returned float32 \[2, 1\] for 2 observations: .*here \[2, 3\], and values \[N\]",
    ),
    "state": (
        "ppo",
        DISCRETE,
        {"model": own_parts.RecurrentWhole},
        UsageError,
        "ppo learns from rows out of their",
    ),
    "no actor": (
        "dqn",
        DISCRETE,
        {"actor": own_parts.actor},
        UsageError,
        "--actor is own_parts:actor, and dqn acts by its values alone: leave it out",
    ),
    "q": (
        "dqn",
        DISCRETE,
        {"critic": own_parts.critic},
        UsageError,
        r"values \[N, A\] of all actions, here \[2, 3\]",
    ),
    "actions": (
        "ddpg",
        ONE,
        {"actor": layer(5, 3)},
        UsageError,
        r"actions \[N, D\] in \[-1, 1\], here \[2, 1\]",
    ),
    "range": (
        "ddpg",
        ONE,
        {"actor": layer(5, 1, 7.0)},
        UsageError,
        r"returned an action of 7: actions must lie in",
    ),
    "action": (
        "ddpg",
        ONE,
        {"critic": layer(5, 1)},
        NetworkError,
        r"failed on the inputs float32 \[2, 5\], float32 \[2, 1\]: Type",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parts_that_do_not_fit_are_refused(case: str) -> None:
    recipe, action, parts, error, sentence = REFUSED[case]
    with pytest.raises(error, match=sentence):
        made(recipe, action, **parts)


@pytest.mark.parametrize(
    ("part", "example"),
    [("network", "network=lambda shape: Linear(...)"), ("actor", "actor=lambda spec: Linear(...)")],
)
def test_a_module_in_the_place_of_a_function_is_refused(part: str, example: str) -> None:
    with pytest.raises(UsageError) as caught:
        made("a2c", DISCRETE, **{part: nn.Linear(4, 2)})
    assert str(caught.value).endswith(example)


def test_a_users_own_critic_gets_no_noisy_layers() -> None:
    with pytest.raises(UsageError, match="--noisy is on, and --critic is "):
        make_network(config("dqn", noisy=True), spec(DISCRETE), OwnParts(critic=own_parts.critic))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"core": "a:b", "lstm": 3, "shared": True}, "--core is a:b and --lstm is 3, and a network has one"),
        ({"core": "a:b", "actor": "a:c", "shared": True}, "--core is a:b between the .* and --actor is a:c"),
        ({"model": "a:b", "critic": "a:c"}, "--model is a:b, the whole network, and --critic is a:c: leave one out"),
        ({"core": "a:b"}, "--core is a:b, and policy and value"),
    ],
)  # fmt: skip
def test_combinations_of_parts_that_are_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        config("a2c", **settings)
    with pytest.raises(UsageError, match="--core is a:b, and dqn learns from steps out of their order"):
        config("dqn", core="a:b")


def test_a_state_goes_into_a_vector_and_back() -> None:
    state = {"a": (torch.randn(3, 2), [torch.randn(3)]), "b": torch.arange(12).view(3, 2, 2)}
    own = StateLayout(state)
    flat = own.flat(state)
    assert flat.shape == (3, own.size) == (3, 2 + 1 + 4) and flat.dtype == torch.float32
    again = own.nested(flat)
    assert torch.equal(again["a"][0], state["a"][0]) and torch.equal(again["a"][1][0], state["a"][1][0])  # type: ignore[index]
    assert torch.equal(again["b"], state["b"]) and again["b"].dtype == torch.int64  # type: ignore[arg-type]
    assert isinstance(again["a"], tuple) and isinstance(again["a"][1], list)


def test_acting_step_by_step_equals_the_forward_pass_of_learning() -> None:
    """Also across the beginning of an episode, and for any state before that."""
    network = make_network(config("a2c", shared=True), spec(DISCRETE), OwnParts(core=own_parts.GRU))
    size = recurrent_size_of(network)
    assert size == 17
    seen, begins = observations(6 * 2), torch.zeros(6, 2, dtype=torch.bool)
    begins[0], begins[3, 1] = True, True
    whole = network(seen, torch.randn(2, size), begins)
    forward = RecurrentForward(network, torch.randn(2, size), begins)
    steps = [forward(seen[2 * t : 2 * t + 2]) for t in range(6)]
    for part in range(2):
        torch.testing.assert_close(torch.cat([step[part] for step in steps]), whole[part])
    torch.testing.assert_close(forward.state_BM, whole[2])
    assert whole[2][:, -1].tolist() == [6.0, 3.0], "steps of the episode"
    alone = network(seen[:2])
    torch.testing.assert_close(alone[0], steps[0][0])


class Broken(own_parts.GRU):
    """`how` names the defect."""

    def __init__(self, inputs: int, how: str) -> None:
        super().__init__(inputs)
        self.how = how

    def initial_state(self, batch: int) -> Any:
        state = super().initial_state(batch)
        return (
            {"hidden": torch.zeros(16)}
            if self.how == "no batch"
            else {"x": 3}
            if self.how == "number"
            else state
        )

    def forward(self, features: Tensor, state: Any, reset: Tensor) -> Any:
        outputs, after = super().forward(features, state, reset & (self.how != "ignored"))
        if self.how == "flat":
            return outputs.flatten(0, 1), after
        if self.how == "other state":
            return outputs, {"hidden": after["hidden"]}
        return outputs if self.how == "alone" else (outputs, after)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            "no batch",
            r"returned \{hidden: float32 \[16\]\} for 2 envs: it must return tensors \[B, \.\.\.\]",
        ),
        ("number", "a recurrent state has a part of type int: it must consist of tensors"),
        (
            "flat",
            r"for features \[3, 2, 5\]: it must return outputs \[T, B, H\], here \[3, 2, H\]",
        ),
        ("alone", r"core mine returned float32 \[3, 2, 17\] for features"),
        ("other state", "returned the state .*: it must have the form of initial_state's"),
        ("ignored", "core mine gives other outputs for other states before rows with reset"),
    ],
)
def test_cores_that_do_not_fit(how: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        OwnCore(Broken(5, how), 5, "core mine")


def test_factories_that_return_no_core_are_refused() -> None:
    with pytest.raises(UsageError, match=r"core mine has no method initial_state\(batch\)"):
        OwnCore(nn.Linear(5, 4), 5, "core mine")
    assert np.isfinite(OwnCore(own_parts.GRU(5), 5, "core mine").units)


class _Swapped(nn.Module):
    """A core with a state of two tensors of one shape, which it returns in another order than it gets them."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 4)

    def initial_state(self, batch: int) -> dict[str, Any]:
        return {"hidden": torch.zeros(batch, 4), "cell": (torch.ones(batch, 4),)}

    def forward(self, features: Tensor, state: Any, reset: Tensor) -> tuple[Tensor, dict[str, Any]]:
        outputs = []
        for features_B, reset_B in zip(features, reset, strict=True):
            state = where_reset(reset_B, self.initial_state(len(reset_B)), state)
            hidden, cell = self.cell(features_B, (state["hidden"], state["cell"][0]))
            state = {"cell": (cell,), "hidden": hidden}
            outputs.append(hidden)
        return torch.stack(outputs), state


def test_a_state_keeps_its_names_in_any_order() -> None:
    """Over calls of one row, as while acting, a core computes what it computes over all rows at once."""
    core, features, keep = OwnCore(_Swapped(), 5, "core mine"), torch.randn(6, 3, 5), torch.ones(6, 3, 1)
    keep[3, 1] = 0.0
    start = StateLayout(core.module.initial_state(3)).flat(core.module.initial_state(3))
    together, last = core(features, start, keep)
    state, rows = start, []
    for t in range(6):
        row, state = core(features[t : t + 1], state, keep[t : t + 1])
        rows.append(row)
    torch.testing.assert_close(torch.cat(rows), together)
    torch.testing.assert_close(state, last)


def test_a_nested_state_is_reset_for_some_envs() -> None:
    initial = {"a": torch.zeros(2, 3), "b": [torch.zeros(2), (torch.zeros(2, 1, 2),)]}
    state = {"b": [torch.ones(2), (torch.ones(2, 1, 2),)], "a": torch.ones(2, 3)}
    found = where_reset(torch.tensor([True, False]), initial, state)
    assert found["a"].tolist() == [[0.0] * 3, [1.0] * 3]
    assert found["b"][0].tolist() == [0.0, 1.0] and found["b"][1][0].tolist() == [[[0.0, 0.0]], [[1.0, 1.0]]]
