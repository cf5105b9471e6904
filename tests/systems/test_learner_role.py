"""What all roles with a learner have in common."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.sampling.unrolls import Unrolls, unroll_layouts
from veldt.systems.impala.learner import UnrollReplay, _ImpalaLearner
from veldt.systems.roles.learner import LearnerRole
from veldt.systems.roles.messages import UpdateMetrics
from veldt.tracking.stage_clock import StageClock


@pytest.mark.parametrize("begun_with", [0, 1, 15, 16])
@pytest.mark.parametrize("at_once", [1, 12, 48])
def test_weights_are_published_when_they_are_due(at_once: int, begun_with: int) -> None:
    """However many updates are made between two looks, and whatever number a learner begins with."""
    published: list[int] = []
    role: Any = SimpleNamespace(
        _learner=SimpleNamespace(updates=begun_with),
        _plan=SimpleNamespace(publish_every=16, rank=0),
        _weights=SimpleNamespace(publish=lambda version, arrays: published.append(version)),
        _parameters=SimpleNamespace(arrays=dict),
    )
    role._publish = lambda: LearnerRole._publish(role)
    role._publish()
    for _ in range(96 // at_once):
        role._learner.updates += at_once
        LearnerRole.publish(role)
    steps = [after - before for before, after in itertools.pairwise(published)]
    assert len(steps) >= 2 and max(steps) <= 16 + at_once - 1
    assert max(steps[1:]) - min(steps[1:]) <= at_once


class _TwoRanks:
    """An edge of two learners that call it in turn: the second gets the maximum of both, and so does the first."""

    def __init__(self, steps: list[int], of_run: int) -> None:
        self._largest = max(steps) / of_run

    def all_reduce_max(self, value: float) -> float:
        assert value <= self._largest
        return self._largest


class _Rank(LearnerRole):
    """One of two learners; `seen` has the progress that its update and its learning rate were computed with."""

    def __init__(self, rank: int, steps: int, edge: _TwoRanks, of_run: int) -> None:
        self.seen: list[float] = []
        any_self: Any = self
        any_self._plan = SimpleNamespace(
            rank=rank, world_size=2, config=SimpleNamespace(run=SimpleNamespace(steps=of_run))
        )
        any_self._rate_limiter = SimpleNamespace(steps=steps, updates_L=np.zeros(2, np.int64))
        any_self._algorithm = SimpleNamespace(learning_rate=lambda progress, rows: self._see(progress))
        any_self._learner = SimpleNamespace(updates=0, version=0, update=self._updated)
        any_self._edge, any_self._shared_progress, any_self._first_update = edge, 0.0, 0
        any_self._clock, any_self._metrics = StageClock(), UpdateMetrics()

    def _see(self, progress: float) -> float:
        self.seen.append(progress)
        return 1e-3

    def _updated(self, batch: Any, progress: float, rate: float) -> Any:
        self._see(progress)
        return SimpleNamespace(metrics={})

    def step(self) -> None: ...

    def source_metrics(self) -> dict[str, float]:
        return {}


def test_impala_takes_a_batch_of_reset_steps_alone() -> None:
    """Unrolls of one step are, where the episodes of all envs end together."""
    spec, cpu = EnvSpec({"": ArraySpec((3,), "float32")}, ActionSpec("discrete", (2,))), torch.device("cpu")
    batch = Unrolls.allocate(spec, unroll_layouts(spec, 1, 2, 2, 0), cpu)
    assert not batch.rows.valid.any()
    rank: Any = _Rank(0, 100, _TwoRanks([100], 1000), 1000)
    rank._plan.config.run.seed, rank._replay, rank._drawn = 1, UnrollReplay({}, 0), 0
    rank._batch, rank._column, rank._columns, rank._fresh, rank._width = batch, 2, 2, 1, 1
    rank._network, rank.publish, rank._rewards = nn.Linear(3, 2), lambda: None, None
    rank._statistics = None  # the network normalises nothing
    _ImpalaLearner._learn(rank)
    assert len(rank.seen) == 2 and rank._column == rank._fresh == 0


def test_learners_that_share_an_update_make_it_at_the_same_progress() -> None:
    """Else the learning rates of parameter groups, such as DDPG's actor's, would differ, and then the parameters."""
    steps = [500, 510]  # actors go on between the moments at which the two look
    edge = _TwoRanks(steps, 1000)
    ranks = [_Rank(rank, steps[rank], edge, 1000) for rank in (0, 1)]
    for rank in ranks:
        rank.update(None, np.zeros(1, np.int64), 1)
    assert [rank.seen for rank in ranks] == [[0.51, 0.51], [0.51, 0.51]]
