"""ε-greedy acting: frequencies, schedules, and independence of the batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from q_tables import ACTIONS, DISCRETE, Table, dqn
from torch import Tensor

from veldt.algorithms.c51 import Rainbow, RainbowConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.errors import UsageError
from veldt.networks.build import build_torso
from veldt.networks.q_network import QNetwork

STEPS, WIDTH, BEST = 2500, 8, 2
LONG_AGO = 10**9
# Where action 2 is the best, whatever is seen.
TABLE = Table(torch.tensor([0.0, 1.0, 3.0, 2.0]).expand(WIDTH, -1))


def drawn(numbers: int = 2, rows: int = STEPS, width: int = WIDTH) -> Tensor:
    return torch.from_numpy(uniform(1, ACTION, np.arange(width), np.arange(rows), numbers))


def actions(own: DQN, steps: int | None) -> np.ndarray:
    """What `WIDTH` envs do in `STEPS` steps, [T, B]."""
    noise_TBK = own.prepare_noise(drawn(), steps)
    return np.stack([own.act(TABLE, torch.arange(WIDTH), noise)[0].numpy() for noise in noise_TBK])


def test_epsilon_is_logged() -> None:
    annealed = dqn(epsilon_start=1.0, epsilon_end=0.0, epsilon_steps=40, learning_starts=8)
    assert annealed.exploration(10)["rollout/epsilon"] == pytest.approx(
        0.95
    )  # 2 steps since learning could start
    assert dqn(exploration="ladder").exploration(10) == {}


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("when", ["training", "evaluation"])
def test_random_actions_have_frequency_epsilon(epsilon: float, when: str) -> None:
    """The other phase has another ε, which must have no effect."""
    if when == "training":
        taken = actions(dqn(epsilon_end=epsilon, evaluation_epsilon=0.5), LONG_AGO)
    else:
        taken = actions(dqn(epsilon_end=0.5, evaluation_epsilon=epsilon), None)
    for action in range(ACTIONS):
        expected = epsilon / ACTIONS + (1 - epsilon) * (action == BEST)
        deviation = np.sqrt(expected * (1 - expected) / taken.size)
        assert abs((taken == action).mean() - expected) <= 4 * deviation


def test_zero_is_never_and_one_is_always() -> None:
    """For all draws: ε = 0.0 is a value, and not a missing setting."""
    uniform_TBK = drawn()
    for never in (
        dqn(epsilon_end=0.0).prepare_noise(uniform_TBK, LONG_AGO),
        dqn(evaluation_epsilon=0.0).prepare_noise(uniform_TBK, None),
    ):
        assert bool((never[..., 0] == -1).all())
    always = dqn(epsilon_start=1.0).prepare_noise(uniform_TBK, 0)[..., 0]
    assert always.unique().tolist() == list(range(ACTIONS))


def test_the_smallest_and_the_largest_random_numbers() -> None:
    least, most = 2.0**-24, 1.0 - 2.0**-24
    given = torch.tensor([[[least, least], [most, most]]])
    assert dqn(epsilon_start=1.0).prepare_noise(given, 0)[0, :, 0].tolist() == [0, ACTIONS - 1]
    assert dqn(epsilon_end=0.0).prepare_noise(given, LONG_AGO)[0, :, 0].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("steps", "epsilon"), [(500, 0.6), (0, 1.0), (250, 0.8), (1000, 0.2), (10**7, 0.2), (500, 0.6)]
)
def test_annealed_as_a_function_of_steps(steps: int, epsilon: float) -> None:
    """In any order: ε has no counter that a resumed run could lose."""
    own = dqn(epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=1000, learning_starts=300)
    assert own.exploration(200) == {"rollout/epsilon": 1.0}
    steps += 300
    assert own.exploration(steps) == pytest.approx({"rollout/epsilon": epsilon})
    explores = own.prepare_noise(drawn(), steps)[..., 0] >= 0
    assert torch.equal(explores, drawn()[..., 0] < epsilon)


def test_annealed_over_a_fraction_of_the_run() -> None:
    own = dqn(
        epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=0, exploration_fraction=0.25, learning_starts=300
    )
    own.run_steps = 4000
    for steps, epsilon in ((0, 1.0), (300, 1.0), (550, 0.8), (1300, 0.2), (4000, 0.2)):
        assert own.exploration(steps) == pytest.approx({"rollout/epsilon": epsilon})


def test_on_the_ladder_each_env_has_its_own() -> None:
    """Horgan et al. 2018, section 4.1: ε_i = 0.4^(1 + 7 i / (N - 1)), the first explores the most, at any time."""
    own = dqn(exploration="ladder", evaluation_epsilon=0.0)
    for steps in (0, LONG_AGO):
        explores = (own.prepare_noise(drawn(), steps)[..., 0] >= 0).numpy()
        for b in range(WIDTH):
            epsilon = 0.4 ** (1 + 7 * b / (WIDTH - 1))
            np.testing.assert_array_equal(explores[:, b], drawn()[:, b, 0].numpy() < epsilon)
        assert explores[:, 0].mean() == pytest.approx(0.4, abs=0.04)
        assert explores[:, WIDTH - 1].mean() < 0.003
    assert bool((own.prepare_noise(drawn(), None)[..., 0] == -1).all())
    assert own.exploration(0) == {}


def test_envs_take_few_rungs_in_turn() -> None:
    """Horgan et al. 2018, appendix D: six values of ε, however many actors there are."""
    few = dqn(exploration="ladder", ladder_rungs=2, ladder_epsilon=0.9)
    uniform_TBK = drawn()
    explores = (few.prepare_noise(uniform_TBK, 0)[..., 0] >= 0).numpy()
    for b in range(WIDTH):
        epsilon = 0.9 if b % 2 == 0 else 0.9**8
        np.testing.assert_array_equal(explores[:, b], uniform_TBK[:, b, 0].numpy() < epsilon)


@pytest.mark.parametrize(
    ("rungs", "scored"),
    [
        (0, [6, 7, 8, 9, 10, 11]),
        (6, [3, 4, 5, 9, 10, 11]),
        (2, [1, 3, 5, 7, 9, 11]),
        (1, range(12)),
        (99, [6, 7, 8, 9, 10, 11]),
    ],
)
def test_the_score_is_of_the_envs_on_the_rungs_that_explore_least(rungs: int, scored: Sequence[int]) -> None:
    assert list(dqn(exploration="ladder", ladder_rungs=rungs).scored_envs(12)) == list(scored)
    assert list(dqn(exploration="ladder", ladder_rungs=rungs, noisy=True).scored_envs(12)) == list(range(12))


def test_an_actor_has_its_own_rungs_of_the_ladder() -> None:
    whole, part = dqn(exploration="ladder", ladder_epsilon=0.9), dqn(exploration="ladder", ladder_epsilon=0.9)
    part.set_env_slice(1, WIDTH)
    uniform_TBK = drawn()
    wanted = whole.prepare_noise(uniform_TBK, 0)[:, 1:3]
    assert torch.equal(part.prepare_noise(uniform_TBK[:, 1:3], 0), wanted)
    assert (wanted[..., 0] >= 0).any()


class OwnEpsilon(DQN):
    """Of the env 3 alone it is 1."""

    def epsilon(self, width: int, steps: int | None) -> Tensor:
        return torch.tensor([float(env == 3) for env in self.env_indices(width)])


def own_epsilon(kind: type[DQN]) -> DQN:
    return kind(DQNConfig(), DISCRETE)


def test_an_epsilon_of_one_s_own_for_each_env() -> None:
    """Of an actor for the envs 2 to 5, the second."""
    own = own_epsilon(OwnEpsilon)
    own.set_env_slice(2, WIDTH)
    is_random_B = (own.prepare_noise(drawn(width=4), 0)[..., 0] >= 0).float().mean(0)
    assert is_random_B.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert list(own_epsilon(OwnEpsilon).env_indices(3)) == [0, 1, 2]


@pytest.mark.parametrize(
    "returned", [None, 0.5, torch.ones(1), torch.full((4,), 1.5), torch.full((4,), math.nan)]
)
def test_an_epsilon_of_one_s_own_that_is_none(returned: Any) -> None:
    own = own_epsilon(type("Mine", (DQN,), {"epsilon": lambda *_: returned}))
    with pytest.raises(
        UsageError, match=r"dqn: Mine.epsilon returned .* for 4 envs: it must return a tensor \[4\] of"
    ):
        own.prepare_noise(drawn(width=4), 0)


def test_a_network_of_one_s_own_needs_no_attribute_for_noise() -> None:
    assert dqn().action_noise(torch.nn.Linear(2, 2)) == 2
    assert dqn().update_noise(torch.nn.Linear(2, 2)) == 0
    with pytest.raises(UsageError, match="--noisy is on, and the network of DQN has no noisy layers"):
        dqn(noisy=True).action_noise(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    "settings",
    [{"exploration": "ladder"}, {"epsilon_steps": 100}, {"noisy": True}],
    ids=["ladder", "annealed", "noisy"],
)
@pytest.mark.parametrize("steps", [60, None])
def test_actions_belong_to_envs_and_not_to_batches(settings: dict[str, Any], steps: int | None) -> None:
    """Noise prepared for all envs at once equals, in slices and step by step, that of each group."""
    own = dqn(evaluation_epsilon=0.5, **settings)
    network = network_of(own)
    uniform_TBK = drawn(own.action_noise(network), rows=20)
    noise_TBK = own.prepare_noise(uniform_TBK, steps)
    observation_BI = torch.randn(WIDTH, 3, generator=torch.Generator().manual_seed(0))
    for t in range(20):
        torch.testing.assert_close(own.prepare_noise(uniform_TBK[t], steps), noise_TBK[t], rtol=0, atol=0)
        whole, _ = own.act(network, observation_BI, noise_TBK[t])
        for group in (slice(0, 3), slice(3, 8)):
            part, _ = own.act(network, observation_BI[group], noise_TBK[t, group])
            assert torch.equal(part, whole[group])


def network_of(own: DQN) -> QNetwork:
    torch.manual_seed(0)
    spec = EnvSpec({"": ArraySpec((3,), "float32")}, DISCRETE)
    network = own.network(functools.partial(build_torso, "mlp", spec, (16,)))
    assert isinstance(network, QNetwork)
    return network


def test_a_envs_action_is_the_same_beside_any_number_of_others() -> None:
    own = dqn(epsilon_end=0.5)
    few, many = (own.prepare_noise(drawn(width=width), LONG_AGO) for width in (3, 8))
    assert torch.equal(few, many[:, :3])


def test_noisy_layers_explore_in_place_of_epsilon() -> None:
    own = dqn(noisy=True, epsilon_start=1.0, epsilon_end=1.0)
    network = network_of(own)
    numbers = own.action_noise(network)
    assert numbers == 2 + network.noise_width == 2 + own.update_noise(network) > 2
    uniform_TBK = drawn(numbers, rows=500)
    noise_TBK = own.prepare_noise(uniform_TBK, 0)
    assert bool((noise_TBK[..., 0] == -1).all())
    assert own.exploration(0) == {"rollout/epsilon": 0.0}
    layers = noise_TBK[..., own.choice_noise :]
    assert layers.shape[-1] == network.noise_width
    assert float(layers.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(layers.std()) == pytest.approx(1.0, abs=0.01)
    # Each env has noise of its own in each step, and the network is given just that.
    assert len(layers.flatten(0, 1).unique(dim=0)) == 500 * WIDTH
    table = Table(TABLE.output)
    own.act(table, torch.arange(WIDTH), noise_TBK[3])
    assert table.noises[0] is not None and torch.equal(table.noises[0], layers[3])


class Softmax(DQN):
    """Draws each action with its share of the softmax over Q, by the Gumbel trick."""

    choice_noise = ACTIONS

    def prepare_choice(self, uniform: Tensor, steps: int | None) -> Tensor:
        return torch.zeros_like(uniform) if steps is None else -(-uniform.log()).log()

    def choose(self, values_NA: Tensor, choice_NC: Tensor) -> Tensor:
        return (values_NA + choice_NC).argmax(-1)


@pytest.mark.parametrize("noisy", [False, True])
def test_another_rule_chooses_wherever_the_algorithm_acts(noisy: bool) -> None:
    """In actors as well, which need the values of the action that was taken; noisy layers keep their own noise."""
    own = Softmax(DQNConfig(noisy=noisy), DISCRETE)
    noise_TBK = own.prepare_noise(drawn(own.action_noise(network_of(own))), 0)
    table = Table(TABLE.output)
    taken = np.stack([own.act(table, torch.arange(WIDTH), noise_BK)[0].numpy() for noise_BK in noise_TBK])
    shares = np.bincount(taken.ravel(), minlength=ACTIONS) / taken.size
    np.testing.assert_allclose(shares, TABLE.output[0].softmax(-1).numpy(), atol=0.02)
    if noisy:
        assert table.noises[-1] is not None and torch.equal(table.noises[-1], noise_TBK[-1, :, ACTIONS:])
    else:
        assert table.noises[-1] is None
    action_N, extras = own.act_with_values(table, torch.arange(WIDTH), noise_TBK[3])
    assert np.array_equal(action_N.numpy(), taken[3])
    assert torch.equal(extras["taken"], TABLE.output[0, action_N])
    assert extras["best"].tolist() == [3.0] * WIDTH
    assert bool((own.choose(TABLE.output, own.prepare_noise(drawn(ACTIONS), None)[0]) == BEST).all())


def test_in_evaluation_noisy_layers_compute_with_their_means() -> None:
    own = dqn(noisy=True, evaluation_epsilon=0.0)
    network = network_of(own)
    observation = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    uniform_NK = drawn(own.action_noise(network), rows=1, width=200)[0]
    explored, played = (
        own.act(network, observation, own.prepare_noise(uniform_NK, steps))[0] for steps in (0, None)
    )
    best = own.best_action(network, observation)
    assert torch.equal(best, network(observation).argmax(-1))
    assert torch.equal(played, best)
    assert not torch.equal(explored, best)


def test_without_noisy_layers_an_action_takes_two_numbers_and_an_update_none() -> None:
    own = Rainbow(RainbowConfig(atoms=5), DISCRETE)
    spec = EnvSpec({"": ArraySpec((3,), "float32")}, DISCRETE)
    network = own.network(functools.partial(build_torso, "mlp", spec, (16,)))
    assert own.action_noise(network) == 2
    assert own.update_noise(network) == 0
    action, remembered = own.act(
        network, torch.randn(WIDTH, 3), own.prepare_noise(drawn(rows=1)[0], LONG_AGO)
    )
    assert action.shape == (WIDTH,) and action.dtype == torch.int64
    assert remembered == {}
