"""Appendix B of Stooke & Abbeel 2018, "Update rule for multi-step asynchronous Adam", transcribed line for line.

The appendix does not number its lines; here they are counted in its order:

    the usual Adam                      accumulation, local         applied to the central values (with a tilde)

    (B1) t <- t + 1                     (B7) a_g <- β₁ a_g + g      (B10) θ, θ~ <- θ~ - a_s
    (B2) a <- r sqrt(1 - β₂ᵗ)/(1 - β₁ᵗ)  (B8) a_g² <- β₂ a_g² + g²   (B11) m, m~ <- β₁ⁿ m~ + (1 - β₁) a_g
    (B3) m <- β₁ m + (1 - β₁) g         (B9) a_s <- a_s + s         (B12) v, v~ <- β₂ⁿ v~ + (1 - β₂) a_g²
    (B4) v <- β₂ v + (1 - β₂) g²                                    (B13) a_g, a_g², a_s <- 0
    (B5) s <- a m / (sqrt(v) + ε)
    (B6) θ <- θ - s

All other values than θ begin at 0, and n is the number of local steps between synchronisations. The implementation
agrees with it if all of `own_moments`, `own_counts` and `epsilon_hat` are on. Each deviation of the default has a test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.envs.spec import ActionSpec
from veldt.exchange.central_store import CentralStore, CentralStoreSpec
from veldt.exchange.parameter_partition import PARAMETERS
from veldt.functional.updates import Adam
from veldt.learning.central_optimiser import CentralOptimiser
from veldt.networks.flat import FlatParameters


@dataclass(frozen=True)
class Numbers:
    """The fixed hyperparameters; r is the learning rate."""

    r: float = 1e-2
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-2


class Central:
    """The values with a tilde; and the number of all updates, which the appendix does not have."""

    def __init__(self, theta: np.ndarray) -> None:
        self.theta, self.m, self.v = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
        self.updates = 0


class Learner:
    """In double precision."""

    def __init__(self, central: Central, n: int, numbers: Numbers) -> None:
        self.central, self.n, self.numbers = central, n, numbers
        self.theta = central.theta.copy()
        self.t, self.m, self.v = 0, np.zeros_like(self.theta), np.zeros_like(self.theta)
        self.a_g, self.a_g2, self.a_s = np.zeros((3, len(self.theta)))
        self.since = 0

    def step(self, g: np.ndarray) -> None:
        self.local_update(g)
        self.since += 1
        if self.since == self.n:
            self.synchronise()

    def local_update(self, g: np.ndarray) -> None:
        r, beta_1, beta_2 = self.numbers.r, self.numbers.beta_1, self.numbers.beta_2
        self.t = self.t + 1  # (B1)
        a = r * np.sqrt(1 - beta_2**self.t) / (1 - beta_1**self.t)  # (B2)
        self.m = beta_1 * self.m + (1 - beta_1) * g  # (B3)
        self.v = beta_2 * self.v + (1 - beta_2) * g**2  # (B4)
        s = self.step_of(a)  # (B5)
        self.theta = self.theta - s  # (B6)
        self.a_g = beta_1 * self.a_g + g  # (B7)
        self.a_g2 = beta_2 * self.a_g2 + g**2  # (B8)
        self.a_s = self.a_s + s  # (B9)

    def step_of(self, a: float) -> np.ndarray:
        return a * self.m / (np.sqrt(self.v) + self.numbers.epsilon)

    def synchronise(self) -> None:
        n, central, beta_1, beta_2 = self.since, self.central, self.numbers.beta_1, self.numbers.beta_2
        central.theta = central.theta - self.a_s  # (B10)
        central.m = beta_1**n * central.m + (1 - beta_1) * self.a_g  # (B11)
        central.v = beta_2**n * central.v + (1 - beta_2) * self.a_g2  # (B12)
        self.theta, self.m, self.v = (
            central.theta.copy(),
            central.m.copy(),
            central.v.copy(),
        )  # (B10) to (B12)
        self.a_g, self.a_g2, self.a_s = np.zeros((3, len(self.theta)))  # (B13)
        self.since = 0


class EpsilonOfAlgorithm1(Learner):
    """Deviation: ε beside the corrected root, `a m / (sqrt(v) + ε sqrt(1 - β₂ᵗ))` in the appendix's letters."""

    def step_of(self, a: float) -> np.ndarray:
        root = np.sqrt(1 - self.numbers.beta_2**self.t)
        return a * self.m / (np.sqrt(self.v) + self.numbers.epsilon * root)


class CentralCount(Learner):
    """Deviation: t is a central value, too: it counts the updates of all learners, which are in the central moments."""

    def synchronise(self) -> None:
        self.central.updates += self.since
        super().synchronise()
        self.t = self.central.updates


class Section43(Learner):
    """Deviation, with n = 1: the gradient is applied to the central parameters by the central moments (section 4.3)."""

    def step(self, g: np.ndarray) -> None:
        self.theta, self.m, self.v = self.central.theta.copy(), self.central.m.copy(), self.central.v.copy()
        super().step(g)


class Implementation:
    """CentralOptimisers on one store in three chunks."""

    def __init__(
        self, learners: int, n: int, numbers: Numbers, *, moments: bool, counts: bool, hat: bool
    ) -> None:
        torch.manual_seed(0)
        networks = [nn.Linear(2, 3) for _ in range(learners)]
        for network in networks:
            network.load_state_dict(networks[0].state_dict())
        self.parameters = [FlatParameters(network) for network in networks]
        algorithm = A2C(A2CConfig(), ActionSpec("discrete", (2,)))
        algorithm.rule = rule = Adam(numbers.beta_1, numbers.beta_2, numbers.epsilon, epsilon_hat=hat)
        first = self.parameters[0].fp32_params
        values = {PARAMETERS: first, **rule.state(first)}
        spec = CentralStoreSpec({name: value.numpy().copy() for name, value in values.items()}, 3, 60.0)
        self.store = CentralStore(spec, None)
        self.optimisers = [
            CentralOptimiser(
                algorithm,
                own,
                self.store.client(rank),
                n,
                own_moments=moments,
                count_share=1 / learners if counts else None,
            )
            for rank, own in enumerate(self.parameters)
        ]

    def step(self, learner: int, gradient: np.ndarray, numbers: Numbers) -> None:
        self.optimisers[learner].apply(torch.from_numpy(gradient.astype(np.float32)), {"all": numbers.r})


def compare(
    kind: type[Learner],
    learners: int,
    n: int,
    seed: int,
    numbers: Numbers = Numbers(),
    *,
    moments: bool = True,
    counts: bool = True,
    hat: bool = True,
) -> float:
    """Both make the same steps in the same random order; returns the largest difference of any value, relative to r
    for parameters, and to the largest value for moments."""
    own = Implementation(learners, n, numbers, moments=moments, counts=counts, hat=hat)
    central = Central(own.parameters[0].fp32_params.double().numpy())
    paper = [kind(central, n, numbers) for _ in range(learners)]
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.uniform(-3, 1, len(central.theta))
    worst = 0.0
    steps = 20 * learners
    for learner in random.integers(0, learners, steps).tolist():
        gradient = random.normal(random.normal(), 1.0, len(scale)) * scale * (random.random(len(scale)) > 0.1)
        gradient = gradient.astype(np.float32).astype(np.float64)
        paper[learner].step(gradient)
        own.step(learner, gradient, numbers)
        theta = own.parameters[learner].fp32_params.double().numpy()
        worst = max(worst, np.abs(theta - paper[learner].theta).max() / numbers.r)
    values = own.store.client(0).copied()
    worst = max(worst, np.abs(values[PARAMETERS] - central.theta).max() / numbers.r)
    for name, moment in (("mean", central.m), ("square", central.v)):
        worst = max(worst, (np.abs(values[name] - moment) / (np.abs(moment).max() + 1e-12)).max())
    assert values["count"] == steps - sum(one.since for one in paper), "it counts the updates of all"
    return worst


ROUNDING = 1e-3


@settings(max_examples=15, deadline=None)
@given(
    learners=st.integers(1, 5),
    n=st.integers(1, 5),
    seed=st.integers(0, 2**16),
    numbers=st.builds(
        Numbers,
        r=st.sampled_from([1e-3, 1e-2, 0.1]),
        beta_1=st.sampled_from([0.0, 0.5, 0.9]),
        beta_2=st.sampled_from([0.9, 0.99, 0.999]),
        epsilon=st.sampled_from([1e-5, 1e-3, 0.1]),
    ),
)
def test_the_implementation_equals_the_appendix(learners: int, n: int, seed: int, numbers: Numbers) -> None:
    assert compare(Learner, learners, n, seed, numbers) < ROUNDING


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("learners", [1, 4])
def test_deviation_epsilon_is_beside_the_corrected_root(learners: int, n: int) -> None:
    assert compare(EpsilonOfAlgorithm1, learners, n, 1, hat=False) < ROUNDING
    assert compare(Learner, learners, n, 1, hat=False) > 10 * ROUNDING, "more than rounding"


@pytest.mark.parametrize("n", [1, 3])
def test_deviation_the_bias_is_corrected_by_the_updates_of_all_learners(n: int) -> None:
    assert compare(CentralCount, 4, n, 2, counts=False) < ROUNDING
    assert compare(Learner, 4, n, 2, counts=False) > 10 * ROUNDING, "more than rounding"
    assert compare(Learner, 1, n, 2, counts=False) < ROUNDING, "a single learner makes all updates"


def test_deviation_a_single_local_step_is_made_by_the_newest_central_values() -> None:
    assert compare(Section43, 4, 1, 3, moments=False) < ROUNDING
    assert compare(Learner, 4, 1, 3, moments=False) > 10 * ROUNDING, "more than rounding"
    assert compare(Learner, 1, 1, 3, moments=False) < ROUNDING, (
        "a single learner's values are the central ones"
    )


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_appendix_reduces_to_the_usual_adam_with_a_single_learner(n: int) -> None:
    numbers = Numbers()
    random = np.random.default_rng(4)
    central = Central(random.normal(size=5))
    alone = Learner(Central(central.theta), 10**9, numbers)
    learner = Learner(central, n, numbers)
    for _ in range(40):
        gradient = random.normal(size=5)
        alone.local_update(gradient)
        learner.step(gradient)
    np.testing.assert_allclose(central.theta, alone.theta, rtol=1e-12)
    np.testing.assert_allclose(central.m, alone.m, rtol=1e-12)
    np.testing.assert_allclose(central.v, alone.v, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_a_learner_of_a_resumed_run_begins_with_its_share_of_the_count(n: int) -> None:
    own = Implementation(2, n, Numbers(), moments=False, counts=True, hat=True)
    gradient = np.ones(len(own.parameters[0].fp32_params))
    for learner in (0, 0, 0, 0, 0, 0, 1, 1):
        own.step(learner, gradient, Numbers())
    assert own.store.client(0).copied()["count"] == 8
    assert [int(one._own_counts["count"]) for one in own.optimisers] == [6, 2]
    algorithm = A2C(A2CConfig(), ActionSpec("discrete", (2,)))
    algorithm.rule = Adam()
    again = CentralOptimiser(algorithm, own.parameters[0], own.store.client(0), n, count_share=0.5)
    assert int(again._own_counts["count"]) == 4


def test_ppo_sets_adams_numbers() -> None:
    config = PPOConfig(adam_beta_1=0.5, adam_epsilon=1e-3, adam_epsilon_hat=True)
    assert PPO(config, ActionSpec("discrete", (2,))).rule == Adam(0.5, 0.999, 1e-3, epsilon_hat=True)
