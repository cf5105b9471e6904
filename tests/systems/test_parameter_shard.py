"""Parameter shards: parts equal the whole, stale gradients are dropped and counted, a checkpoint fits one learner."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.envs.spec import ActionSpec
from veldt.exchange.parameter_partition import (
    COUNTS,
    PARAMETERS,
    gradient_layouts,
    part_layouts,
    split_evenly,
)
from veldt.exchange.persistent_state import PersistentState
from veldt.exchange.slots import SlotRings
from veldt.exchange.weights import SharedWeights
from veldt.functional.updates import AdaGrad
from veldt.learning.learner import load_state
from veldt.learning.optimiser import GroupedRule, LocalOptimiser
from veldt.networks.flat import FlatParameters
from veldt.networks.own import NO_PARTS
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.processes import forkserver
from veldt.runtime.shared import Layout
from veldt.systems.gorila.parameter_server import joined_checkpoint
from veldt.systems.gorila.parameter_shard import (
    ParameterShard,
    ParameterShardPlan,
    _initial_state,
    run_parameter_shard,
)
from veldt.systems.planning.run_plan import make_run_plan

DISCRETE = ActionSpec("discrete", sizes=(2,), start=(0,))
BOX = ActionSpec("box", low=(-1.0,), high=(1.0,))


def algorithms() -> dict[str, Algorithm]:
    return {
        "adam": DQN(DQNConfig(), DISCRETE),
        "rmsprop": DQN(DQNConfig(optimiser="rmsprop"), DISCRETE),
        "adagrad": DQN(DQNConfig(optimiser="adagrad", adagrad_initial=0.1), DISCRETE),
        "two step sizes": DDPG(DDPGConfig(actor_learning_rate=1e-4), BOX),
    }


def parameters(seed: int = 0) -> FlatParameters:
    torch.manual_seed(seed)
    return FlatParameters(nn.ModuleDict({"critic": nn.Linear(7, 5), "actor": nn.Linear(5, 3)}))


def shards_of(algorithm: Algorithm, own: FlatParameters, count: int, **settings: Any) -> list[ParameterShard]:
    rule, made = GroupedRule(algorithm.groups, own), []
    for first, end in split_evenly(len(own.fp32_params), count):
        part = own.fp32_params[first:end].clone()
        made.append(ParameterShard(rule, first, part, algorithm.rule.state(part), **settings))
    return made


def gradients(own: FlatParameters, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(len(own.fp32_params), generator=generator) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("algorithm", algorithms().values(), ids=algorithms())
def test_updates_of_parts_equal_the_update_of_the_whole(algorithm: Algorithm, count: int) -> None:
    own = parameters()
    shards, whole = shards_of(algorithm, own, count), LocalOptimiser(algorithm, own)
    for number, gradient_P in enumerate(gradients(own, 20)):
        rates = {group.name: 0.01 / (1 + number) / (1 + i) for i, group in enumerate(algorithm.groups)}
        for shard, (first, end) in zip(shards, split_evenly(len(own.fp32_params), count), strict=True):
            assert shard.take(gradient_P[first:end].clone(), number, list(rates.values()))
        whole.apply(gradient_P.clone(), rates)
    parts = {f"server-{number}": shard.state_arrays() for number, shard in enumerate(shards)}
    groups = joined_checkpoint({"target": {}, **parts}, parameters(), count)
    assert set(groups) == {"target", "weights", "optimiser", "server"}
    for name, tensor in own.tensors().items():
        np.testing.assert_allclose(groups["weights"][name], tensor.numpy(), rtol=1e-5, atol=1e-7)
    state = algorithm.rule.state(own.fp32_params)
    load_state(own, state, groups["optimiser"])
    for name, value in whole.state.items():
        torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-7)
    assert groups["server"]["version"].tolist() == [20] * count
    assert groups["server"][COUNTS].tolist() == [[20, 0, 0]] * count


def test_a_gradient_older_than_the_threshold_is_dropped_and_counted() -> None:
    algorithm = dataclasses.replace(DQNConfig(optimiser="adagrad"))
    own = parameters()
    (shard,) = shards_of(DQN(algorithm, DISCRETE), own, 1, version=10, max_staleness=3)
    gradient_P = torch.ones_like(own.fp32_params)
    assert shard.take(gradient_P.clone(), 7, [0.1]), "three updates old"
    before = shard.published()[PARAMETERS].copy()
    assert shard.version == 11
    assert not shard.take(gradient_P.clone(), 7, [0.1]), "four updates old"
    assert shard.version == 11 and (shard.published()[PARAMETERS] == before).all()
    assert shard.take(gradient_P.clone(), 11, [0.1]) and (shard.published()[PARAMETERS] != before).all()
    assert shard.counts == (3, 1, 3 + 4 + 0)
    assert shard.take(gradient_P.clone(), 20, [0.1]), "of a server that has lost some versions since"
    assert shard.counts == (4, 1, 7)


class StopAfterHeartbeats:
    """A role's control, which is told to stop after so many heartbeats."""

    restart_count, requested_snapshot = 0, 0

    def __init__(self, heartbeats: int) -> None:
        self._left = heartbeats

    @property
    def stopping(self) -> bool:
        return self._left <= 0

    def heartbeat(self) -> None:
        self._left -= 1


def test_the_sender_of_a_stale_gradient_gets_a_newer_version() -> None:
    """Even before a publish is due: otherwise all gradients of the sender's version would be too old for ever."""
    settings = {"hidden": (4,), "publish_every": 100, "max_staleness": 2, "optimiser": "adagrad"}
    config = with_settings(find("gorila").config("CartPole-v1"), settings)
    run_plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    own = run_plan.network()[1]
    end, context = len(own.fp32_params), forkserver(["veldt.envs.worker"])
    rule = {
        name: Layout(value.shape, "float32")
        for name, value in run_plan.algorithm().rule.state(own.fp32_params).items()
    }
    rings, part = SlotRings(gradient_layouts(end, 1), 1, 6, context), SharedWeights(part_layouts(end), None)
    plan, out = ParameterShardPlan(config, run_plan.spec, NO_PARTS, 0, 0, end, None), rings.producer(0)

    def bring(count: int) -> None:
        for _ in range(count):
            slot = out.slot(0.0)
            assert slot is not None
            slot["gradient"][:], slot["base"][0], slot["learning_rate"][0] = 1.0, 0, 0.1
            out.commit()

    control: Any = StopAfterHeartbeats(12)
    bring(5)
    run_parameter_shard(control, plan, rings, part, PersistentState(rule, None))
    found = {PARAMETERS: np.empty(end, np.float32), COUNTS: np.empty(3, np.int64)}
    assert part.pull_if_newer(-1, found) == 3
    assert found[COUNTS][1] >= 1, "it is told how many were too old"


def test_without_a_threshold_nothing_is_dropped() -> None:
    own = parameters()
    (shard,) = shards_of(DQN(DQNConfig(), DISCRETE), own, 1, version=1000)
    assert shard.take(torch.ones_like(own.fp32_params), 0, [0.1]) and shard.counts == (1, 0, 1000)


def test_a_joined_checkpoint_has_the_counts_of_all_parts() -> None:
    own, algorithm = parameters(), DQN(DQNConfig(optimiser="adam"), DISCRETE)
    shards = shards_of(algorithm, own, 2, max_staleness=1)
    for base in (0, 1):
        shards[0].take(torch.ones(len(shards[0].published()[PARAMETERS])), base, [0.1])
    for _ in range(5):
        shards[1].take(torch.ones(len(shards[1].published()[PARAMETERS])), 0, [0.1])
    parts = {f"server-{number}": shard.state_arrays() for number, shard in enumerate(shards)}
    groups = joined_checkpoint(parts, parameters(), 2)
    assert groups["server"][COUNTS].tolist() == [[2, 0, 0], [5, 3, 7]]
    assert groups["server"]["version"].tolist() == [2, 2] and float(groups["optimiser"]["count"]) == 2.0


@pytest.mark.parametrize(("published", "newest"), [(95, 100), (105, 105), (-1, 100)])
def test_a_restarted_shard_continues_from_the_newest_remaining_version(
    published: int, newest: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A part of a checkpoint may have been saved after what was published last, and the other way round."""
    config = with_settings(find("gorila").config("CartPole-v1"), {"hidden": (4,)})
    run_plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    algorithm, (_, own) = run_plan.algorithm(), run_plan.network()
    saved = ParameterShard(
        GroupedRule(algorithm.groups, own),
        0,
        own.fp32_params.clone().fill_(100),
        algorithm.rule.state(own.fp32_params),
        100,
    )
    groups = joined_checkpoint({"server-0": saved.state_arrays()}, own, 1)
    checkpoint = Checkpoint(0, tmp_path, {}, groups)
    monkeypatch.setattr("veldt.systems.gorila.parameter_shard.newest_checkpoint", lambda run: checkpoint)

    class Part:
        def pull_if_newer(self, version: int, into: dict[str, np.ndarray]) -> int:
            if published >= 0:
                into[PARAMETERS][:] = published
            return published

    class Control:
        restart_count = 0

    plan = ParameterShardPlan(config, run_plan.spec, NO_PARTS, 0, 0, len(own.fp32_params), tmp_path)
    rule = {
        name: Layout(value.shape, "float32") for name, value in algorithm.rule.state(own.fp32_params).items()
    }
    shard = _initial_state(Control(), plan, Part(), PersistentState(rule, None))  # type: ignore[arg-type]
    assert shard.version == newest and (shard.published()[PARAMETERS] == newest).all()


def test_adagrads_steps_shrink_from_where_its_sum_begins() -> None:
    config = DQNConfig(optimiser="adagrad", adagrad_initial=4.0)
    assert config.rule() == AdaGrad(initial=4.0)
