"""The network that a sampler-learner trains, with what follows from it: its target networks, its batches of replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from veldt.algorithms.base import Algorithm, Forward, OffPolicy
from veldt.envs.trajectory import Trajectory
from veldt.learning.batch_sources import BatchShare, ReplaySource
from veldt.learning.replay_batches import BatchConverter, NoiseWidths
from veldt.learning.targets import TargetNetworks
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import Network
from veldt.systems.planning.run_plan import RunPlan
from veldt.tracking.stage_clock import StageClock

if TYPE_CHECKING:
    from veldt.replay.buffer import ReplayBuffer  # loads numba, which an on-policy run does not need


@dataclass(frozen=True)
class TrainedNetwork:
    """A run plan's network with its initial weights, its forward pass and its target networks.

    Args:
        note: called with a message for the user.
    """

    run_plan: RunPlan
    algorithm: Algorithm
    network: Network
    parameters: FlatParameters
    forward: Forward
    targets: TargetNetworks
    note: Callable[[str], None]

    @classmethod
    def of(cls, run_plan: RunPlan, note: Callable[[str], None]) -> Self:
        """Makes the network of a run plan."""
        algorithm = run_plan.algorithm()
        network, parameters = run_plan.network()
        forward = run_plan.forward(network, note)
        targets = TargetNetworks(
            algorithm.target_networks,
            parameters,
            run_plan.network,
            lambda network: run_plan.forward(network, note),
        )
        return cls(run_plan, algorithm, network, parameters, forward, targets, note)

    def replay_source(
        self,
        slot: Trajectory,
        buffer: ReplayBuffer,
        share: BatchShare,
        clock: StageClock,
        *,
        fills: bool = True,
    ) -> ReplaySource:
        """Returns the source of its batches from a replay buffer; the arguments are those of `ReplaySource`."""
        assert isinstance(self.algorithm, OffPolicy)
        return ReplaySource(
            self.algorithm,
            partial(self.targets.batch, self.algorithm, self.forward),
            slot,
            buffer,
            BatchConverter(slot.spec, NoiseWidths.of(self.algorithm, self.network), self.run_plan.device),
            share,
            clock,
            self.note,
            fills=fills,
        )
