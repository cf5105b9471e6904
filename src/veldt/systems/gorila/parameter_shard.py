"""The parameter shard: a part of the parameters, and the update rule's state of it (Nair et al. 2015, section 4).

    learner 0 ==gradient, version==> ring 0 --+
    learner 1 ==gradient, version==> ring 1 --+==> shard --publish(version)--> learners, actors, evaluators

Its version is the number of updates it has made. A gradient of parameters that are older than the threshold is
discarded and counted (section 4.2).

Its state survives its process. A restarted shard continues from the parameters that it published last, and from the
rule's state, which the runtime holds in memory; where that is lost with its machine, from the newest checkpoint's.
At most the gradients between two publications are lost, or are in the rule's state alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veldt.agent import make_network
from veldt.config.gorila_settings import GorilaConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.exchange.parameter_partition import COUNTS, PARAMETERS, VERSION, ShardCounts
from veldt.exchange.persistent_state import PersistentState
from veldt.exchange.slots import Arrays, Slots
from veldt.exchange.weights import Weights
from veldt.learning.learner import load_state, load_weights
from veldt.learning.optimiser import GroupedRule
from veldt.networks.own import OwnParts
from veldt.networks.precision import apply_precision
from veldt.runs.checkpoint_files import restoring
from veldt.runs.checkpoints import newest_checkpoint
from veldt.runtime.devices import flush_denormals
from veldt.runtime.roles import Control
from veldt.systems.roles.gradient_serving import Staleness, serve_gradients
from veldt.systems.roles.messages import SnapshotPart

_RECALL_S = 5.0  # for readers on other machines to send what a former incarnation published
_NONE = ShardCounts()


@dataclass(frozen=True)
class ParameterShardPlan:
    """Shard `number` has the parameters `first` up to `end` of all.

    `run` is the run's directory, whose newest checkpoint it resumes from where no newer state is left.
    """

    config: TrainConfig
    spec: EnvSpec
    network: OwnParts
    number: int
    first: int
    end: int
    run: Path | None

    @property
    def group(self) -> str:
        """Name of its group in a checkpoint."""
        return f"server-{self.number}"


@flush_denormals()
def run_parameter_shard(
    control: Control, plan: ParameterShardPlan, gradients: Slots, part: Weights, persistent: PersistentState
) -> None:
    """Entry point of the role: applies gradients until it is asked to stop."""
    torch.set_num_threads(1)
    settings = plan.config.roles
    assert isinstance(settings, GorilaConfig)
    shard = _initial_state(control, plan, part, persistent)
    sent_snapshot = 0

    def apply(arrays: Arrays) -> bool:
        gradient_N = torch.from_numpy(arrays["gradient"])
        return shard.take(gradient_N, int(arrays["base"][0]), arrays["learning_rate"].tolist())

    def send_snapshot() -> None:
        nonlocal sent_snapshot
        if (number := control.requested_snapshot) not in (0, sent_snapshot):
            sent_snapshot = number
            control.send(SnapshotPart(number, {plan.group: shard.state_arrays()}))

    serve_gradients(
        control,
        shard,
        apply,
        gradients.consumer(),
        part,
        settings.learners,
        settings.publish_every,
        send_snapshot,
    )


class ParameterShard:
    """See the module. `version` counts updates.

    Args:
        rule: of all parameters, of which these begin at `first`.
        parameters_N, state: float32 [N], and the rule's state of them; both are updated in place.
        max_staleness: updates that may have been made since a gradient's parameters; 0: any number.
    """

    def __init__(
        self,
        rule: GroupedRule,
        first: int,
        parameters_N: Tensor,
        state: dict[str, Tensor],
        version: int = 0,
        counts: ShardCounts = _NONE,
        max_staleness: int = 0,
    ) -> None:
        self._rule, self._first = rule, first
        self._parameters_N, self._state = parameters_N, state
        self._no_bf16_copy = torch.empty(0, dtype=torch.bfloat16)
        self.version, self._staleness = version, Staleness(max_staleness, counts)

    @property
    def counts(self) -> ShardCounts:
        """Counts of the gradients received."""
        return self._staleness.counts

    def take(self, gradient_N: Tensor, base: int, rate_G: Sequence[float]) -> bool:
        """Makes one update by a gradient of version `base`; returns False if it is too old, and is discarded.

        The gradient may be overwritten. `rate_G` are the groups' learning rates, NaN for a group that does not move.
        """
        if not self._staleness.admits(self.version, base):
            return False
        names = (group.name for group in self._rule.groups)
        rates = {name: rate for name, rate in zip(names, rate_G, strict=True) if not math.isnan(rate)}
        self._rule.apply(self._first, self._parameters_N, gradient_N, self._state, rates, self._no_bf16_copy)
        self.version += 1
        return True

    def published(self) -> dict[str, np.ndarray]:
        """Returns the arrays that its readers get."""
        return {PARAMETERS: self._parameters_N.numpy(), COUNTS: np.array(self.counts, np.int64)}

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Returns its state for a checkpoint."""
        state = {name: tensor.numpy() for name, tensor in self._state.items()}
        return {**self.published(), **state, VERSION: np.array([self.version], np.int64)}


def _initial_state(
    control: Control, plan: ParameterShardPlan, part: Weights, persistent: PersistentState
) -> ParameterShard:
    """Returns a shard with the state of a former incarnation, of a checkpoint, or of a new network, in this order."""
    config = plan.config
    settings = config.roles
    assert isinstance(settings, GorilaConfig)
    algorithm = config.make_algorithm(plan.spec.action)
    network = make_network(config, plan.spec, plan.network)
    whole = apply_precision(network, config.run.precision, torch.device("cpu"))
    rule = GroupedRule(algorithm.groups, whole)
    state, version, counts = rule.state(whole.fp32_params), 0, np.zeros(3, np.int64)
    checkpoint = None if plan.run is None else newest_checkpoint(plan.run)
    if checkpoint is not None:
        with restoring(checkpoint):
            load_weights(whole, checkpoint.groups["weights"])
            load_state(whole, state, checkpoint.groups["optimiser"])
            saved = checkpoint.groups["server"]
            version, counts = int(saved[VERSION][plan.number]), saved[COUNTS][plan.number]
    published = {
        PARAMETERS: whole.fp32_params[plan.first : plan.end].numpy().copy(),
        COUNTS: np.array(counts, np.int64),
    }
    recovered = {name: array.copy() for name, array in published.items()}
    # A part of a checkpoint may have been saved after the last publication.
    if (newer := _recover_published(control, part, recovered)) >= version:
        version, published = newer, recovered
    if not persistent.is_filled:
        own = {name: value[plan.first : plan.end] if value.ndim else value for name, value in state.items()}
        persistent.fill({name: value.numpy() for name, value in own.items()})
    return ParameterShard(
        rule,
        plan.first,
        torch.from_numpy(published[PARAMETERS]),
        {name: torch.from_numpy(array) for name, array in persistent.arrays.items()},
        version,
        ShardCounts(*map(int, published[COUNTS])),
        settings.max_staleness,
    )


def _recover_published(control: Control, part: Weights, into: Mapping[str, np.ndarray]) -> int:
    """Copies what a former incarnation has published to `into`, and returns its version; -1 if none of it is left."""
    end = time.monotonic() + (_RECALL_S if control.restart_count else 0.0)
    while (version := part.pull_if_newer(-1, into)) < 0 and time.monotonic() < end:
        control.heartbeat()
        control.sleep(0.02)
    return version
