"""Running statistics of training data: those of observations, in the network's normaliser, and those of rewards.

Both are updated once for every rollout or batch of unrolls, from its valid rows, merged over all learners in the order
of their ranks: so all learners have the same statistics, bit for bit. Reset steps are not counted, and the row after
the last step counts where it becomes the first row of the next rollout.

Observations: after the updates on a rollout. The network that learns from it is then the one that acted, so that the
old log-probabilities, values and advantages belong to the same inputs. The first rollout is acted in, and learned from,
with a mean of 0 and a variance of 1.

Rewards: before the updates, so that a rollout's rewards are divided by one number that includes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from veldt.envs.trajectory import Rows
from veldt.exchange.gradients import GradientEdge
from veldt.functional.moments import EPSILON, Moments
from veldt.networks.normaliser import normaliser_of

REWARD_CLIP = 10.0  # normalised rewards lie in [-REWARD_CLIP, REWARD_CLIP], as in VecNormalize and CleanRL


def update_observation_statistics(network: nn.Module, rows: Rows, edge: GradientEdge) -> None:
    """Adds the observations of all valid rows, of all learners, to the statistics of the network's normaliser.

    Nothing happens where the network has none.
    """
    normaliser = normaliser_of(network)
    if normaliser is None:
        return
    first, end = rows.history, rows.history + rows.steps
    new = [Moments.of(rows.observation[name][first:end][rows.valid]) for name, _ in normaliser.statistics()]
    before = normaliser.moments()
    normaliser.store([old.merged(own) for old, own in zip(before, _of_all(new, edge), strict=True)])


def copy_observation_statistics(network: nn.Module, source: nn.Module) -> None:
    """Gives a network, on the same device, the statistics of another one's normaliser. Nothing happens without one."""
    own, others = normaliser_of(network), normaliser_of(source)
    if own is not None and others is not None:
        own.load_state_dict(others.state_dict())


def _of_all(own: list[Moments], edge: GradientEdge) -> list[Moments]:
    """Returns the moments of the values of all learners."""
    lists = [moments.numbers() for moments in own]
    merged = [Moments.none(moments.mean.shape) for moments in own]
    for numbers in edge.all_gather(list(itertools.chain(*lists))):
        theirs = iter(numbers)
        for index, moments in enumerate(merged):
            part = list(itertools.islice(theirs, len(lists[index])))
            merged[index] = moments.merged(Moments.of_numbers(part, moments.mean.shape))
    return merged


class RewardNormaliser:
    """Divides rewards by the standard deviation of the running discounted return, then clips them to ±10.

    The running return of an env is R <- γ R + r at each step, and begins from 0 with each episode; it continues over
    rollouts. Its variance is that of all steps of all envs so far (VecNormalize, Gymnasium's NormalizeReward). Rewards
    are not centred, and episodes' scores stay raw.

    Args:
        gamma: the discount γ of the running return.
        width: this learner's envs.
        edge: to the other learners.
    """

    def __init__(self, gamma: float, width: int, edge: GradientEdge) -> None:
        self._gamma, self._edge = gamma, edge
        self._return_B = np.zeros(width)
        self.moments = Moments.none(())

    def normalise(self, reward_TB: Tensor, rows: Rows) -> Tensor:
        """Returns the normalised rewards of a rollout, after adding its returns to the statistics.

        Args:
            reward_TB: the raw rewards of `rows` on the learner's device, float32.
        """
        returns = self._running_returns(rows)[rows.valid]
        (new,) = _of_all([Moments.of(returns)], self._edge)
        self.moments = self.moments.merged(new)
        deviation = float(np.sqrt(self.moments.variance + EPSILON))
        return (reward_TB / deviation).clamp(-REWARD_CLIP, REWARD_CLIP)

    def _running_returns(self, rows: Rows) -> np.ndarray:
        """The running return after each step, float64 [T, B]; those of reset steps mean nothing."""
        return_TB = np.empty(rows.reward.shape)
        over_TB = rows.terminated | rows.truncated | rows.interrupted
        running_B = self._return_B
        for t, reward_B in enumerate(rows.reward.astype(np.float64)):
            return_TB[t] = self._gamma * running_B + reward_B
            running_B = np.where(over_TB[t] | ~rows.valid[t], 0.0, return_TB[t])
        self._return_B = running_B
        return return_TB

    def state(self) -> dict[str, Any]:
        """Returns its state as JSON values, which hold every bit of a float64."""
        return {"moments": self.moments.numbers(), "returns": self._return_B.tolist()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self.moments = Moments.of_numbers(state["moments"], ())
        self._return_B = np.array(state["returns"])
