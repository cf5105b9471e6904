"""What an actor sends besides its steps: initial priorities, or the policy's parameters."""

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
    """See the module's docstring."""

    @property
    def act(self) -> Act:
        """The algorithm's function that chooses actions and returns the values needed here."""

    def forward(self, network: Network) -> Forward:
        """Returns the part of the network's forward pass that is needed."""

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        """Returns arrays by name, for the trajectory buffer that the sampler has just filled."""


def actor_extras_for(algorithm: Algorithm) -> ActorExtras:
    """Returns the extras that a learner with this algorithm needs."""
    return FirstPriorities(algorithm) if isinstance(algorithm, OffPolicy) else BehaviourPolicy(algorithm)


class FirstPriorities:
    """ "priority" float64 [T, B]: each step's initial priority by the actor's network; 0 for rows without a return."""

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
        outputs = sampler.actor_outputs()
        priority_TB = np.zeros((slot.steps, slot.width))
        if not outputs:  # the algorithm computes no initial priorities
            priority_TB.reshape(-1)[returns.row_N] = 1.0
            return {"priority": priority_TB}
        priority_N = self._algorithm.first_priorities(
            outputs["taken"][returns.row_N],
            torch.from_numpy(returns.reward_N),
            torch.from_numpy(returns.discount_N),
            outputs["best"][returns.bootstrap_N],
        )
        priority_TB.reshape(-1)[returns.row_N] = priority_N.numpy()
        return {"priority": priority_TB}


class BehaviourPolicy:
    """ "policy" float32 [T, B, P]: the parameters of each step's distribution. With an LSTM also
    "initial_recurrent_state" float32 [B, M]: the recurrent state before the first row."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm

    @property
    def act(self) -> Act:
        return self._algorithm.act

    def forward(self, network: Network) -> Forward:
        # The learner computes values with its own network. (After an LSTM, the value head costs almost nothing.)
        return network.acting if isinstance(network, ActorCritic) else network

    def of(self, sampler: Sampler) -> dict[str, np.ndarray]:
        rollout = sampler.rollout()
        arrays = {"policy": rollout.extras["policy"].numpy()}
        if rollout.recurrent is not None:
            arrays["initial_recurrent_state"] = rollout.recurrent.first_BM.numpy()
        return arrays
