"""What an actor says of its steps besides the steps: first priorities, or the policy as it acted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from veldt.algorithms.base import Algorithm, Forward, OffPolicy
from veldt.networks.actor_critic import ActorCritic
from veldt.networks.precision import Network
from veldt.replay.slot_returns import slot_returns
from veldt.sampling.sampler import Act, Sampler


class ActorExtras(Protocol):
    """See the module's text."""

    @property
    def act(self) -> Act:
        """What of the algorithm acts, so that there is something to say."""

    def forward(self, network: Network) -> Forward:
        """What of the network is needed for it."""

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        """Arrays by name, of the slot that the sampler has just filled."""


def actor_extras_for(algorithm: Algorithm) -> ActorExtras:
    """Those that whoever learns with this algorithm needs."""
    return FirstPriorities(algorithm) if isinstance(algorithm, OffPolicy) else BehaviourPolicy(algorithm)


class FirstPriorities:
    """ "priority" float64 [T, B]: what the actor's own network thinks of each step; 0 where there was none."""

    def __init__(self, algorithm: OffPolicy) -> None:
        self._algorithm = algorithm

    @property
    def act(self) -> Act:
        return self._algorithm.act_with_values

    def forward(self, network: Network) -> Forward:
        return network

    @torch.no_grad()
    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        slot = sampler.trajectory
        returns = slot_returns(slot, self._algorithm.returns)
        said = sampler.actor_outputs()
        priority_TB = np.zeros((slot.steps, slot.width))
        priority_N = self._algorithm.first_priorities(
            said["taken"][returns.row_N],
            torch.from_numpy(returns.reward_N),
            torch.from_numpy(returns.discount_N),
            said["best"][returns.bootstrap_N],
        )
        priority_TB.reshape(-1)[returns.row_N] = priority_N.numpy()
        return {"priority": priority_TB}


class BehaviourPolicy:
    """ "policy" float32 [T, B, P], the parameters of each step's distribution; of a network that has a memory also
    "memory" float32 [B, M], before the first row."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm

    @property
    def act(self) -> Act:
        return self._algorithm.act

    def forward(self, network: Network) -> Forward:
        # The learner asks its own network what states are worth. (Beside an LSTM, that costs next to nothing.)
        return network.acting if isinstance(network, ActorCritic) else network

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        rollout = sampler.rollout()
        arrays = {"policy": rollout.extras["policy"].numpy()}
        if rollout.memory is not None:
            arrays["memory"] = rollout.memory.first_BM.numpy()
        return arrays
