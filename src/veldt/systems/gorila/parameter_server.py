"""The parameter server in a graph: its shards, the edges to and from them, and its part of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veldt.config.gorila_settings import GorilaConfig
from veldt.errors import UsageError
from veldt.exchange.graph import Edge, Groups, PersistentStateSpec, Role, SlotsSpec, WeightsSpec
from veldt.exchange.parameter_partition import (
    COUNTS,
    PARAMETERS,
    VERSION,
    gradient_layouts,
    part_layouts,
    split_evenly,
)
from veldt.learning.learner import by_parameter_name, state_by_parameter_name
from veldt.learning.optimiser import GroupedRule
from veldt.networks.flat import FlatParameters
from veldt.runtime.shared import Layout
from veldt.systems.gorila.parameter_shard import ParameterShardPlan, run_parameter_shard
from veldt.systems.planning.run_plan import RunPlan

_DEPTH = 2  # gradients of each learner in flight to a shard: one is applied while the next is written
_HUNG_S = 60.0  # without a heartbeat, after which a shard counts as hung
_STARTUP_TIMEOUT_S = 300.0  # at the start it may read a checkpoint


@dataclass(frozen=True)
class ParameterServer:
    """`edges` are all of its own; `gradients` and `parts` are the names of those to each shard and from each, in order.

    `whole` joins the shards' groups of a checkpoint into the groups of one learner.
    """

    role: Role
    edges: dict[str, Edge]
    gradients: tuple[str, ...]
    parts: tuple[str, ...]
    whole: Callable[[Groups], Groups]


def parameter_server(run_plan: RunPlan, run: Path | None, reader: str) -> ParameterServer:
    """Returns the configured shards; graphs draw the edge of parameters to `reader`.

    Raises UsageError where the network has fewer parameters than shards.
    """
    settings, parameters = run_plan.config.roles, run_plan.shared_parameters()
    assert isinstance(settings, GorilaConfig)
    total, shards = len(parameters.fp32_params), settings.parameter_shards
    if shards > total:
        raise UsageError(
            f"--parameter-shards is {shards:,}, and the network has {total:,} parameters: take fewer shards"
        )
    groups = run_plan.algorithm().groups
    state = GroupedRule(groups, parameters).state(parameters.fp32_params)
    bounds, edges = split_evenly(total, shards), dict[str, Edge]()
    for shard, (first, end) in enumerate(bounds):
        slots = SlotsSpec(gradient_layouts(end - first, len(groups)), settings.learners, _DEPTH)
        edges |= _shard_edges(shard, end - first, slots, state, reader)
    gradients, parts = (tuple(f"{what} {shard}" for shard in range(shards)) for what in ("gradients", "part"))
    whole = partial(joined_checkpoint, parameters=parameters, shards=shards)
    return ParameterServer(_shards_role(run_plan, bounds, run), edges, gradients, parts, whole)


def _shard_edges(
    shard: int, size: int, gradients: SlotsSpec, state: Mapping[str, Tensor], reader: str
) -> dict[str, Edge]:
    """Returns the edges of a shard of `size` parameters. `state` is the rule's state of all parameters."""
    rule = {name: Layout((size,) if value.ndim else (), "float32") for name, value in state.items()}
    return {
        f"gradients {shard}": Edge(
            "learner",
            "server",
            f"gradients of a part with the version they are of, {_DEPTH} for each learner, full ones block",
            gradients,
        ),
        f"part {shard}": Edge(
            "server",
            reader,
            "a part of the parameters, two copies that none waits for",
            WeightsSpec(part_layouts(size)),
        ),
        f"state {shard}": Edge(
            "server",
            "server",
            "the rule's state of a part, kept for the next incarnation",
            PersistentStateSpec(rule),
        ),
    }


def _shards_role(run_plan: RunPlan, bounds: Sequence[tuple[int, int]], run: Path | None) -> Role:
    """Returns the shards as a role; each has the parameters from `first` to `end` of its bounds."""
    shards, total = len(bounds), bounds[-1][1]
    settings = run_plan.config.roles
    assert isinstance(settings, GorilaConfig)
    return Role(
        "server",
        f"has {total // shards:,} parameters and the update rule's state, and applies gradients to them",
        run_parameter_shard,
        [
            ParameterShardPlan(
                run_plan.config,
                run_plan.spec,
                run_plan.own_parts_for_roles,
                number=shard,
                first=first,
                end=end,
                run=run,
            )
            for shard, (first, end) in enumerate(bounds)
        ],
        [
            {"gradients": f"gradients {shard}", "part": f"part {shard}", "persistent": f"state {shard}"}
            for shard in range(shards)
        ],
        settings.max_restarts,
        _HUNG_S,
        num_checkpointed=shards,
        resumes_from="what it had published",
        startup_timeout_s=_STARTUP_TIMEOUT_S,
    )


def joined_checkpoint(groups: Groups, parameters: FlatParameters, shards: int) -> Groups:
    """Returns a checkpoint's groups with the shards' parts joined, as one learner's would be.

    Args:
        parameters: of a network like the shards', for its names.
    """
    rest = {name: group for name, group in groups.items() if not name.startswith("server-")}
    parts = [groups[f"server-{number}"] for number in range(shards)]
    state = {}
    for name in parts[0].keys() - {PARAMETERS, COUNTS, VERSION}:
        arrays = [part[name] for part in parts]
        # Step counts of the rule differ between shards by the gradients that each has discarded.
        joined = np.concatenate(arrays) if arrays[0].ndim else np.max(arrays)
        state[name] = torch.from_numpy(np.asarray(joined, np.float32))
    fp32_params = torch.from_numpy(np.concatenate([part[PARAMETERS] for part in parts]))
    return rest | {
        "weights": by_parameter_name(parameters, fp32_params),
        "optimiser": state_by_parameter_name(parameters, state),
        "server": {
            VERSION: np.concatenate([part[VERSION] for part in parts]),
            COUNTS: np.stack([part[COUNTS] for part in parts]),
        },
    }
