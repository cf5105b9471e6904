"""Running statistics of training data: those of observations, in the network's normaliser, and those of rewards.

Both are updated once for every rollout or batch of unrolls, from its valid rows, and are those of all learners
(`running_statistics.py`). Reset steps are not counted, and the row after the last step counts where it becomes the
first row of the next rollout.

Observations: after the updates on a rollout. The network that learns from it is then the one that acted, so that the
old log-probabilities, values and advantages belong to the same inputs. The first rollout is acted in, and learned from,
with a mean of 0 and a variance of 1.

Rewards: before the updates, so that a rollout's rewards are divided by one number that includes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm, OnPolicy
from veldt.envs.trajectory import Rows
from veldt.functional.moments import EPSILON, Moments
from veldt.learning.running_statistics import OBSERVATIONS, REWARDS, RunningStatistics
from veldt.networks.normaliser import normaliser_of

REWARD_CLIP = 10.0  # normalised rewards lie in [-REWARD_CLIP, REWARD_CLIP], as in VecNormalize and CleanRL


def update_observation_statistics(network: nn.Module, rows: Rows, statistics: RunningStatistics) -> None:
    """Adds the observations of all valid rows, of all learners, to the statistics of the network's normaliser.

    Nothing happens where the network has none.
    """
    normaliser = normaliser_of(network)
    if normaliser is None:
        return
    first, end = rows.history, rows.history + rows.steps
    new = [Moments.of(rows.observation[name][first:end][rows.valid]) for name, _ in normaliser.statistics()]
    normaliser.store(statistics.with_new(OBSERVATIONS, normaliser.moments(), new))


def load_observation_statistics(network: nn.Module, statistics: RunningStatistics) -> None:
    """Gives the network's normaliser, if it has one, the statistics to which all learners have added so far."""
    normaliser = normaliser_of(network)
    if normaliser is not None:
        before = normaliser.moments()
        nothing = [Moments.none(moments.mean.shape) for moments in before]
        normaliser.store(statistics.with_new(OBSERVATIONS, before, nothing))


def copy_observation_statistics(network: nn.Module, source: nn.Module) -> None:
    """Gives a network, on the same device, the statistics of another one's normaliser. Nothing happens without one."""
    own, others = normaliser_of(network), normaliser_of(source)
    if own is not None and others is not None:
        own.load_state_dict(others.state_dict())


def reward_gamma_of(algorithm: Algorithm) -> float | None:
    """Returns γ of the running return by whose deviation the algorithm's rewards are divided; None: they stay raw."""
    return algorithm.reward_statistics_gamma if isinstance(algorithm, OnPolicy) else None


class RunningReturns:
    """The running discounted return of each env: R <- γ R + r at each step, from 0 with each episode.

    It continues over rollouts, so the process that has an env's rollouts in their order keeps it.

    Args:
        gamma: the discount γ.
        width: the envs.
    """

    def __init__(self, gamma: float, width: int) -> None:
        self._gamma = gamma
        self._return_B = np.zeros(width)

    def of(self, rows: Rows) -> np.ndarray:
        """Returns the running return after each step of the next rollout, float64 [T, B]; those of reset steps mean
        nothing."""
        return_TB = np.empty(rows.reward.shape)
        over_TB = rows.terminated | rows.truncated | rows.interrupted
        running_B = self._return_B
        for t, reward_B in enumerate(rows.reward.astype(np.float64)):
            return_TB[t] = self._gamma * running_B + reward_B
            running_B = np.where(over_TB[t] | ~rows.valid[t], 0.0, return_TB[t])
        self._return_B = running_B
        return return_TB

    def state(self) -> list[float]:
        """Returns its state as JSON values, which hold every bit of a float64."""
        values: list[float] = self._return_B.tolist()
        return values

    def load(self, state: list[float]) -> None:
        """Restores what `state` returned."""
        self._return_B = np.array(state)


class RewardNormaliser:
    """Divides rewards by the standard deviation of the running discounted return, then clips them to ±10.

    The variance is that of all steps of all envs so far (VecNormalize, Gymnasium's NormalizeReward). Rewards are not
    centred, and episodes' scores stay raw.
    """

    def __init__(self, statistics: RunningStatistics) -> None:
        self._statistics = statistics
        self.moments = Moments.none(())

    def normalise(self, reward_TB: Tensor, return_N: np.ndarray) -> Tensor:
        """Returns the normalised rewards of a rollout, after adding its running returns to the statistics.

        Args:
            reward_TB: raw rewards on the learner's device, float32.
            return_N: the running returns (`RunningReturns`) of the steps that have not been added before.
        """
        (self.moments,) = self._statistics.with_new(REWARDS, [self.moments], [Moments.of(return_N)])
        deviation = float(np.sqrt(self.moments.variance + EPSILON))
        return (reward_TB / deviation).clamp(-REWARD_CLIP, REWARD_CLIP)

    def state(self) -> dict[str, Any]:
        """Returns its state as JSON values."""
        return {"moments": self.moments.numbers()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self.moments = Moments.of_numbers(state["moments"], ())
