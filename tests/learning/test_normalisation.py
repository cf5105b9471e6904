"""The statistics of training data, of observations and rewards, against plain loops and Gymnasium."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import nn

from veldt.agent import make_network
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.envs.trajectory import Rows, row_layouts
from veldt.exchange.gradients import NoAllReduce
from veldt.exchange.shared_statistics import SharedStatistics, SharedStatisticsSpec
from veldt.functional.moments import Moments
from veldt.learning.normalisation import (
    RewardNormaliser,
    RunningReturns,
    load_observation_statistics,
    update_observation_statistics,
)
from veldt.learning.running_statistics import (
    OBSERVATIONS,
    REWARDS,
    SharedRunningStatistics,
    SynchronisedStatistics,
    numbers_of,
)
from veldt.networks.normaliser import normaliser_of
from veldt.recipes import find
from veldt.recipes.overrides import with_settings

ACTION = ActionSpec("discrete", sizes=(2,), start=(0,))
SPEC = EnvSpec({"": ArraySpec((3,), "float32")}, ACTION)
STACKED = EnvSpec({"camera": ArraySpec((4, 4), "uint8", stack=4), "body": ArraySpec((3,), "float32")}, ACTION)
GAMMA = 0.9
ALONE = SynchronisedStatistics(NoAllReduce())


class Recorded(NoAllReduce):
    """The edge of the first of several learners, of which the others have sent these numbers."""

    def __init__(self, others: Sequence[Sequence[float]]) -> None:
        self._others = others

    def all_gather(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values), *map(list, self._others)]


def rollout(seed: int, spec: EnvSpec = SPEC, steps: int = 20, width: int = 4) -> Rows:
    """Random rows; after an end comes a reset step, with a large reward that no statistic may contain."""
    rng = np.random.default_rng(seed)
    arrays = {
        name: np.zeros(layout.shape, layout.dtype) for name, layout in row_layouts(spec, steps, width).items()
    }
    rows = Rows(spec, arrays)
    for name, array in rows.observation.items():
        array[...] = rng.normal(50.0, 10.0, array.shape) if name != "camera" else 1
    rows.reward[...] = rng.normal(3.0, 2.0, rows.reward.shape)
    for name in ("terminated", "truncated", "interrupted"):
        getattr(rows, name)[...] = rng.random(rows.reward.shape) < 0.07
    rows.valid[...] = True
    over = rows.terminated | rows.truncated | rows.interrupted
    for t in range(1, steps):
        for b in range(width):
            if over[t - 1, b] and rows.valid[t - 1, b]:
                rows.valid[t, b], rows.reward[t, b] = False, 1e6
                rows.flags[t, :4, b] = False
                rows.observation[next(iter(spec.observation))][rows.history + t, b] = 0
    return rows


def network(spec: EnvSpec = SPEC) -> nn.Module:
    settings = {"normalise_observations": True, "hidden": (8,)}
    return make_network(with_settings(find("ppo").config("CartPole-v1"), settings), spec)


def moments_of(own: nn.Module) -> Moments:
    normaliser = normaliser_of(own)
    assert normaliser is not None
    (moments,) = normaliser.moments()
    return moments


@pytest.mark.parametrize("spec", [SPEC, STACKED], ids=["vector", "beside an image"])
def test_observation_statistics_are_those_of_all_valid_rows_that_were_acted_on(spec: EnvSpec) -> None:
    """Not of reset steps, and not of the row after the last step: that is the first of the next rollout."""
    own, all_rows = network(spec), [rollout(seed, spec) for seed in range(5)]
    for rows in all_rows:
        update_observation_statistics(own, rows, ALONE)
    name = "body" if spec is STACKED else ""
    acted_on = [rows.observation[name][rows.history : rows.history + 20][rows.valid] for rows in all_rows]
    seen, moments = np.concatenate(acted_on).astype(np.float64), moments_of(own)
    assert moments.count == len(seen) == sum(int(rows.valid.sum()) for rows in all_rows)
    np.testing.assert_allclose(moments.mean, seen.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, seen.var(0), rtol=1e-12)


def test_statistics_contain_the_observations_of_all_learners() -> None:
    own, alone, others = network(), network(), [rollout(1), rollout(2)]
    sent = [Moments.of(rows.observation[""][:20][rows.valid]).numbers() for rows in others]
    update_observation_statistics(own, rollout(0), SynchronisedStatistics(Recorded(sent)))
    for rows in (rollout(0), *others):
        update_observation_statistics(alone, rows, ALONE)
    assert moments_of(own).numbers() == pytest.approx(moments_of(alone).numbers(), rel=1e-12)


def normalise(normaliser: RewardNormaliser, returns: RunningReturns, rows: Rows) -> torch.Tensor:
    return normaliser.normalise(torch.from_numpy(rows.reward), returns.of(rows)[rows.valid])


def test_rewards_are_divided_by_the_deviation_of_the_running_return() -> None:
    """The variance is Gymnasium's `RunningMeanStd`, updated with the returns of all envs after each step."""
    normaliser, returns = RewardNormaliser(ALONE), RunningReturns(GAMMA, 4)
    gymnasium_ones, running = RunningMeanStd(epsilon=0.0, shape=()), np.zeros(4)
    for seed in range(5):
        rows = rollout(seed)
        normalised = normalise(normaliser, returns, rows)
        for t in range(rows.steps):
            valid = rows.valid[t]
            running[valid] = GAMMA * running[valid] + rows.reward[t][valid].astype(np.float64)
            gymnasium_ones.update(running[valid])
            running[rows.terminated[t] | rows.truncated[t] | rows.interrupted[t]] = 0.0
        assert normaliser.moments.count == gymnasium_ones.count
        np.testing.assert_allclose(normaliser.moments.variance, gymnasium_ones.var, rtol=1e-12)
        expected = np.clip(rows.reward / np.sqrt(gymnasium_ones.var + 1e-8), -10.0, 10.0)
        np.testing.assert_allclose(normalised.numpy()[rows.valid], expected[rows.valid], rtol=1e-6)


def test_large_rewards_are_clipped_and_raw_ones_stay() -> None:
    rows = rollout(0, steps=2000)
    rows.reward[:] = 0.0
    rows.reward[10, 1] = -100.0
    raw = rows.reward.copy()
    normalised = normalise(RewardNormaliser(ALONE), RunningReturns(GAMMA, 4), rows)
    assert normalised[10, 1] == -10.0 and not normalised[11:].any()
    np.testing.assert_array_equal(rows.reward, raw)


def test_reward_statistics_contain_the_returns_of_all_learners() -> None:
    alone, only = RewardNormaliser(ALONE), RewardNormaliser(ALONE)
    normalise(alone, RunningReturns(GAMMA, 4), rollout(1))
    shared = RewardNormaliser(SynchronisedStatistics(Recorded([alone.moments.numbers()])))
    for normaliser in (shared, only):
        normalise(normaliser, RunningReturns(GAMMA, 4), rollout(0))
    assert shared.moments.numbers() == only.moments.merged(alone.moments).numbers()


def test_a_restored_reward_normaliser_goes_on_bit_for_bit() -> None:
    whole, restored = ((RewardNormaliser(ALONE), RunningReturns(GAMMA, 4)) for _ in range(2))
    normalise(*whole, rollout(0))
    for one, saved in zip(restored, whole, strict=True):
        one.load(saved.state())
    results = [normalise(*both, rollout(1)) for both in (whole, restored)]
    assert torch.equal(*results)
    assert [one.state() for one in whole] == [one.state() for one in restored]


def test_learners_that_share_statistics_normalise_by_the_data_of_all() -> None:
    """Two that come in turn have what one would have that sees the data of both; a third one begins with it."""
    initial = {OBSERVATIONS: numbers_of([Moments.none((3,))]), REWARDS: numbers_of([Moments.none(())])}
    spec = SharedStatisticsSpec({name: np.array(numbers) for name, numbers in initial.items()}, 60.0)
    central = SharedRunningStatistics(SharedStatistics(spec, None), lambda: None)
    (first, second), alone, late = [network() for _ in range(2)], network(), network()
    both = [(RewardNormaliser(central), RunningReturns(GAMMA, 4)) for _ in range(2)]
    only = RewardNormaliser(ALONE)
    returns = [RunningReturns(GAMMA, 4) for _ in range(2)]
    for seed in range(6):
        rows, turn = rollout(seed), seed % 2
        update_observation_statistics((first, second)[turn], rows, central)
        update_observation_statistics(alone, rows, ALONE)
        assert torch.equal(normalise(*both[turn], rows), normalise(only, returns[turn], rows))
    load_observation_statistics(late, central)
    assert moments_of(second).numbers() == moments_of(late).numbers() == moments_of(alone).numbers()
    assert moments_of(first).count < moments_of(late).count
