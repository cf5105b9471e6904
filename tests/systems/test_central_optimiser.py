"""Update rules on a central store: one learner equals torch, several learners equal appendix B's algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import Loss
from veldt.algorithms.groups import ParameterGroup
from veldt.envs.spec import ActionSpec
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.gradients import NoAllReduce
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.functional.updates import AdaGrad, Adam, RMSProp, UpdateRule, _is_fused
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.learning.learner import Learner
from veldt.learning.optimiser import LocalOptimiser
from veldt.networks.flat import FlatParameters

RATE, STEPS = 1e-3, 1000
TorchRule = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
RULES: dict[str, tuple[UpdateRule, TorchRule]] = {
    "adam": (Adam(epsilon=1e-5), lambda own: torch.optim.Adam(own, RATE, eps=1e-5)),
    "adam, small epsilon": (Adam(epsilon=1e-8), lambda own: torch.optim.Adam(own, RATE, eps=1e-8)),
    "rmsprop": (
        RMSProp(0.99, 1e-5, epsilon_inside=False),
        lambda own: torch.optim.RMSprop(own, RATE, alpha=0.99, eps=1e-5),
    ),
    "adagrad": (AdaGrad(epsilon=1e-10), lambda own: torch.optim.Adagrad(own, RATE, eps=1e-10)),
}


class Inside(torch.optim.Optimizer):
    """A3C's RMSProp, with epsilon inside of the root, in double precision; `keep` 1 and `add` 1 make it AdaGrad."""

    def __init__(self, own: list[nn.Parameter], keep: float, add: float, epsilon: float) -> None:
        super().__init__(own, {})
        self._own, self._numbers = own[0], (keep, add, epsilon)
        self._square = torch.zeros_like(self._own, dtype=torch.float64)
        self._exact = self._own.detach().double()

    def step(self, closure: Any = None) -> None:
        keep, add, epsilon = self._numbers
        assert self._own.grad is not None
        gradient = self._own.grad.double()
        self._square.mul_(keep).add_(add * gradient**2)
        self._exact -= RATE * gradient / (self._square + epsilon).sqrt()
        self._own.data.copy_(self._exact)


RULES["rmsprop, epsilon inside"] = RMSProp(0.99, 0.1), lambda own: Inside(own, 0.99, 0.01, 0.1)
RULES["adagrad, epsilon inside"] = AdaGrad(0.1, True), lambda own: Inside(own, 1.0, 1.0, 0.1)


class Ruled(A2C):
    """A2C with another rule."""

    def __init__(self, rule: UpdateRule) -> None:
        super().__init__(A2CConfig(), ActionSpec("discrete", (2,)))
        self.rule = rule


class Learners:
    """Several of them on one store, for a network of `size` inputs."""

    def __init__(
        self, rule: UpdateRule, size: int, local_steps: int, count: int = 1, chunks: int = 3
    ) -> None:
        torch.manual_seed(0)
        first, algorithm = nn.Linear(size, 10), Ruled(rule)
        self.parameters = [FlatParameters(first)]
        for _ in range(1, count):
            other = nn.Linear(size, 10)
            other.load_state_dict(first.state_dict())
            self.parameters.append(FlatParameters(other))
        initial = {PARAMETERS: self.parameters[0].fp32_params, **rule.state(self.parameters[0].fp32_params)}
        spec = CentralStoreSpec({name: value.numpy().copy() for name, value in initial.items()}, chunks, 60.0)
        self.store = CentralStore(spec, None)
        self.optimisers = [
            CentralOptimiser(algorithm, own, self.store.client(rank), local_steps)
            for rank, own in enumerate(self.parameters)
        ]

    def central(self) -> dict[str, np.ndarray]:
        return self.store.client(0).copied()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As learners beside others have it, and as Adam is compiled."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def gradients(size: int, steps: int) -> list[Tensor]:
    """Of very different sizes, some of them zero."""
    generator = torch.Generator().manual_seed(1)
    scale = torch.logspace(-4, 1, size)
    made = [torch.randn(size, generator=generator) * scale for _ in range(steps)]
    for gradient in made:
        gradient[::9] = 0.0
    return made


@pytest.mark.parametrize("size", [5, 32_000], ids=["small", "compiled"])
@pytest.mark.parametrize("local_steps", [1, 2, 4])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.usefixtures("one_thread")
def test_one_learner_equals_torch(name: str, local_steps: int, size: int) -> None:
    rule, make = RULES[name]
    own = Learners(rule, size, local_steps)
    parameters = own.parameters[0].fp32_params
    chunks = [chunk.tensors[PARAMETERS] for chunk in own.store.client(0).chunks()]
    assert {_is_fused(chunk) for chunk in chunks} == {size > 100}
    steps = STEPS if size < 100 else 60
    reference = nn.Parameter(parameters.clone())
    optimiser = make([reference])
    for gradient in gradients(len(parameters), steps):
        reference.grad = gradient.clone()
        optimiser.step()
        own.optimisers[0].apply(gradient.clone(), {"all": RATE})
    torch.testing.assert_close(parameters, reference.detach(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(own.central()[PARAMETERS], parameters.numpy(), rtol=0, atol=1e-6)


class Naive:
    """Appendix B's multi-step asynchronous Adam, as it stands there, for one number and in double precision.

    Of a single local step, section 4.3's: the rule is applied to what is central by then.
    """

    def __init__(self, value: float, learners: int, local_steps: int) -> None:
        self.central = {"theta": value, "m": 0.0, "v": 0.0, "t": 0}
        self.local = [dict(self.central) for _ in range(learners)]
        self.added = [{"theta": 0.0, "m": 0.0, "v": 0.0} for _ in range(learners)]
        self.local_steps, self.since = local_steps, [0] * learners

    def step(self, learner: int, gradient: float) -> None:
        if self.local_steps == 1:
            self.local[learner] = dict(self.central)
        own, added = self.local[learner], self.added[learner]
        own["t"] += 1
        own["m"] = 0.9 * own["m"] + 0.1 * gradient
        own["v"] = 0.999 * own["v"] + 0.001 * gradient**2
        # What this learner has added since it was in sync, by itself: the same recursions, begun at 0.
        added["m"] = 0.9 * added["m"] + 0.1 * gradient
        added["v"] = 0.999 * added["v"] + 0.001 * gradient**2
        mean, square = own["m"] / (1 - 0.9 ** own["t"]), own["v"] / (1 - 0.999 ** own["t"])
        step = -RATE * mean / (square**0.5 + 1e-5)
        own["theta"] += step
        added["theta"] += step
        self.since[learner] += 1
        if self.since[learner] == self.local_steps:
            n, central = self.local_steps, self.central
            central["theta"] += added["theta"]
            central["m"] = 0.9**n * central["m"] + added["m"]
            central["v"] = 0.999**n * central["v"] + added["v"]
            central["t"] += n
            self.local[learner] = dict(central)
            self.added[learner] = {"theta": 0.0, "m": 0.0, "v": 0.0}
            self.since[learner] = 0


@pytest.mark.parametrize("local_steps", [1, 2, 3])
def test_several_learners_equal_the_papers_algorithm(local_steps: int) -> None:
    """In any order; each number of the network is one run of the naive one."""
    own = Learners(Adam(), 2, local_steps, count=3)
    start = own.parameters[0].fp32_params.tolist()
    naive = [Naive(value, 3, local_steps) for value in start]
    order = np.random.default_rng(2).integers(0, 3, 300).tolist()
    for learner, gradient in zip(order, gradients(len(start), len(order)), strict=True):
        for one, value in zip(naive, gradient.tolist(), strict=True):
            one.step(learner, value)
        own.optimisers[learner].apply(gradient.clone(), {"all": RATE})
    central = own.central()
    assert central["count"] == naive[0].central["t"]
    for name, theirs in ((PARAMETERS, "theta"), ("mean", "m"), ("square", "v")):
        expected = [one.central[theirs] for one in naive]
        np.testing.assert_allclose(central[name], expected, rtol=1e-4, atol=2e-6, err_msg=name)
    for learner, parameters in enumerate(own.parameters):
        expected = [one.local[learner]["theta"] for one in naive]
        np.testing.assert_allclose(parameters.fp32_params.numpy(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("rule", "meanwhile"),
    [(RMSProp(0.99, 1e-5, epsilon_inside=False), 2_000), (Adam(), 20_000)],
    ids=["rmsprop", "adam"],
)
@pytest.mark.parametrize("local_steps", [4, 8])
@pytest.mark.usefixtures("one_thread")
def test_sums_of_squares_are_not_negative_after_one_learner_stalls(
    rule: UpdateRule, meanwhile: int, local_steps: int
) -> None:
    """Meanwhile, decay by the other learner brings the squares of zero gradients close to 0."""
    own, generator = Learners(rule, 5, local_steps, count=2), torch.Generator().manual_seed(3)
    one, stalled = own.optimisers

    def bring(optimiser: CentralOptimiser, steps: int, *, dead: bool) -> None:
        for _ in range(steps):
            gradient = torch.randn(60, generator=generator)
            gradient[::2] *= not dead
            optimiser.apply(gradient, {"all": RATE})

    for _ in range(50):
        bring(one, local_steps, dead=False)
        bring(stalled, local_steps, dead=False)
    bring(one, meanwhile, dead=True)
    bring(stalled, local_steps, dead=True)
    bring(one, 2 * local_steps, dead=True)
    central = own.central()
    assert (central["square"] >= 0.0).all() and np.isfinite(central[PARAMETERS]).all()


@pytest.mark.parametrize("local_steps", [1, 2])
def test_the_bf16_copy_is_of_the_parameters(local_steps: int) -> None:
    """Chunks end within the parameters of the group."""
    network = nn.ModuleDict({name: nn.Linear(9, 9) for name in "abc"})
    own = FlatParameters(network, [network["a"], network["b"]])
    own.refresh()
    state = Adam().state(own.fp32_params)
    values = {name: value.numpy().copy() for name, value in {PARAMETERS: own.fp32_params, **state}.items()}
    store = CentralStore(CentralStoreSpec(values, 4, 60.0), None)
    ends = [chunk.end for chunk in store.client(0).chunks()]
    assert any(0 < end < len(own.bf16_copy) for end in ends) and any(end > len(own.bf16_copy) for end in ends)
    optimiser = CentralOptimiser(Ruled(Adam()), own, store.client(0), local_steps)
    for gradient in gradients(len(own.fp32_params), 2):
        before = own.bf16_copy.clone()
        optimiser.apply(gradient, {"all": 0.1})
        assert torch.equal(own.bf16_copy, own.fp32_params[: len(before)].bfloat16())
        assert not torch.equal(own.bf16_copy, before)


def test_the_bf16_copy_includes_what_others_did_to_a_group_that_stays() -> None:
    class Delayed(Ruled):
        @property
        def groups(self) -> tuple[ParameterGroup, ...]:
            return ParameterGroup("actor", self.rule, ("bias",), every=2), ParameterGroup("critic", self.rule)

    networks = [nn.Linear(4, 3) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    first, second = (FlatParameters(network, [network]) for network in networks)
    values = {PARAMETERS: first.fp32_params, **RMSProp().state(first.fp32_params)}
    initial = {name: value.numpy().copy() for name, value in values.items()}
    store, delayed = CentralStore(CentralStoreSpec(initial, 2, 60.0), None), Delayed(RMSProp())
    one, other = (
        CentralOptimiser(delayed, own, store.client(rank), 1) for rank, own in enumerate((first, second))
    )
    gradient = torch.ones_like(first.fp32_params)
    other.apply(gradient.clone(), {"actor": 0.1, "critic": 0.1})
    one.apply(gradient.clone(), {"critic": 0.1})
    assert torch.equal(first.bf16_copy, first.fp32_params.bfloat16())


@pytest.mark.parametrize("local_steps", [1, 3])
def test_updates_of_other_learners_count_at_each_exchange_and_pull(local_steps: int) -> None:
    own, met = Learners(Adam(), 2, local_steps), list[int]()
    optimiser = CentralOptimiser(
        Ruled(Adam()), own.parameters[0], own.store.client(0), local_steps, lambda: met.append(1)
    )
    assert len(met) == 1, "as it begins"
    for gradient in gradients(len(own.parameters[0].fp32_params), 6):
        optimiser.apply(gradient, {"all": RATE})
    assert len(met) == 1 + 6 // local_steps
    optimiser.pull()
    assert len(met) == 2 + 6 // local_steps


def test_pull_gets_the_updates_of_other_learners() -> None:
    own = Learners(Adam(), 2, 1, count=2)
    own.optimisers[0].apply(torch.ones_like(own.parameters[0].fp32_params), {"all": RATE})
    assert not torch.equal(own.parameters[0].fp32_params, own.parameters[1].fp32_params)
    own.optimisers[1].pull()
    assert torch.equal(own.parameters[0].fp32_params, own.parameters[1].fp32_params)


def test_an_exchange_between_local_steps_sends_the_steps_so_far() -> None:
    own, alone = Learners(Adam(), 2, 4), Learners(Adam(), 2, 1)
    steps = gradients(len(own.parameters[0].fp32_params), 6)
    for number, gradient in enumerate(steps):
        own.optimisers[0].apply(gradient.clone(), {"all": RATE})
        alone.optimisers[0].apply(gradient.clone(), {"all": RATE})
        if number == 1:
            own.optimisers[0].exchange()
    own.optimisers[0].exchange()
    for name, values in alone.central().items():
        np.testing.assert_allclose(own.central()[name], values, rtol=1e-6, atol=1e-7, err_msg=name)


def test_catch_up_sends_new_steps_and_gets_those_of_other_learners() -> None:
    own = Learners(RMSProp(), 2, 4, count=2)
    start = own.parameters[0].fp32_params.clone()
    first, second = own.optimisers
    first.apply(torch.ones_like(start), {"all": RATE})
    second.apply(-torch.ones_like(start), {"all": RATE})
    alone = [parameters.fp32_params - start for parameters in own.parameters]
    first.catch_up()
    second.catch_up()
    first.catch_up()
    for parameters in own.parameters:
        torch.testing.assert_close(parameters.fp32_params, start + alone[0] + alone[1], rtol=0, atol=1e-7)


def test_a_parameter_group_has_its_own_learning_rate() -> None:
    class Slow(Ruled):
        @property
        def groups(self) -> tuple[ParameterGroup, ...]:
            slow = ParameterGroup("slow", self.rule, ("bias",))
            return slow, ParameterGroup("all", self.rule)

    rates = {"slow": 0.25 * RATE, "all": RATE}

    network, other = nn.Linear(4, 3), nn.Linear(4, 3)
    other.load_state_dict(network.state_dict())
    rule = Adam()
    local, central = FlatParameters(network), FlatParameters(other)
    initial = {PARAMETERS: central.fp32_params, **rule.state(central.fp32_params)}
    store = CentralStore(
        CentralStoreSpec({name: value.numpy().copy() for name, value in initial.items()}, 4, 60.0), None
    )
    here, there = LocalOptimiser(Slow(rule), local), CentralOptimiser(Slow(rule), central, store.client(0), 1)
    for gradient in gradients(len(local.fp32_params), 20):
        here.apply(gradient.clone(), rates)
        there.apply(gradient.clone(), rates)
    torch.testing.assert_close(local.fp32_params, central.fp32_params, rtol=0, atol=1e-7)


class Falling(Ruled):
    """Less is better."""

    def loss(self, forward: Any, batch: Any, progress: float) -> Loss:
        total = forward(torch.ones(1, 2)).sum()
        return Loss(total, {})


@pytest.mark.parametrize(
    ("local_steps", "expected"),
    [
        # Each meets three updates of others, which are in its own parameters afterwards.
        (1, [3, 7, 11, 15]),
        # Only those that bring what is new to the store meet others'.
        (2, [0, 7, 8, 15]),
    ],
)
def test_an_update_counts_those_of_other_learners_before_it(local_steps: int, expected: list[int]) -> None:
    network, others, met = nn.Linear(2, 1), 0, 0

    def meet() -> None:
        nonlocal met
        met = others

    own, algorithm = FlatParameters(network), Falling(Adam())
    values = {PARAMETERS: own.fp32_params, **Adam().state(own.fp32_params)}
    spec = CentralStoreSpec({name: value.numpy().copy() for name, value in values.items()}, 2, 60.0)
    optimiser = CentralOptimiser(algorithm, own, CentralStore(spec, None).client(0), local_steps, meet)
    learner = Learner(
        algorithm, network, own, NoAllReduce(), None, optimiser, version_of=lambda count: count + met
    )
    made_to = []
    for _ in expected:
        others += 3
        learner.update(None, 0.0, RATE)
        made_to.append(learner.updated_version)
    assert made_to == expected
