"""The model of docs/scaling.md against cases computed by hand."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
try:
    model, systems = (importlib.import_module(f"scaling_{name}") for name in ("model", "systems"))
finally:
    sys.path.pop()
LinearCost, Station = model.LinearCost, model.Station
_FREE = LinearCost(0.0, 0.0)
_EDGES = (
    "publish", "pull", "hand over", "take", "add", "draw", "renew", "store", "rule", "request", "reply", "wake",
    "message",
)  # fmt: skip
# A step takes 1 ms; inference 1 ms a batch and 0.1 ms a row on a core, 0.2 ms a batch and nothing a row on the device;
# an update 2 ms and 0.01 ms a row there. Everything else is free until a test says otherwise.
COSTS = systems.Costs(
    simulate=1e-3,
    infer=LinearCost(1e-3, 1e-4),
    update=LinearCost(0.0, 1e-3),
    infer_at=LinearCost(2e-4, 0.0),
    update_at=LinearCost(2e-3, 1e-5),
    reduce=lambda count, learners: 0.0,
    carry=lambda count: 0.0,
    edges=dict.fromkeys(_EDGES, _FREE),
    parameters=1000,
    step_bytes=100.0,
    row_bytes=800.0,
)


def with_edges(**lines: object) -> object:
    named = {name.replace("_", " "): line for name, line in lines.items()}
    return dataclasses.replace(COSTS, edges={**COSTS.edges, **named})


def test_the_slowest_of_side_by_side_binds_and_a_chain_adds_up() -> None:
    # 2 servers of 1 ms: 2,000/s; a chain of 0.4 and 0.6 ms: 1,000/s; 0.25 ms: 4,000/s.
    chains = [
        (Station("wide", 1e-3, 2),),
        (Station("a", 4e-4), Station("b", 6e-4)),
        (Station("quick", 2.5e-4),),
    ]
    found = model.predicted(chains)
    assert found.sps == pytest.approx(1000) and found.binds == "b"
    assert found.busy == pytest.approx({"wide": 0.5, "a": 0.4, "b": 0.6, "quick": 0.25})


def test_lines_go_through_their_points_and_never_below_nothing() -> None:
    rng = np.random.default_rng(0)
    for fixed, each in rng.uniform(1e-6, 1e-3, (20, 2)):
        line = model.line_through([(n, fixed + each * n) for n in (1, 7, 300)])
        assert (line.fixed, line.each) == pytest.approx((fixed, each), rel=1e-6)
    assert model.line_through([(4, 2.0)]) == LinearCost(0.0, 0.5)
    assert model.line_through([(1, 1.0), (10, 20.0)]).fixed == 0.0  # steeper than through the origin
    assert model.line_through([(1, 3.0), (10, 1.0)]).each == 0.0


def test_alternating_groups_hide_the_quicker_of_simulation_and_inference() -> None:
    # 4 workers x 16 envs, 5 steps: 320 rows. Envs 0.25 ms a step; inference (0.2 ms a group of 32) hides
    # behind them; an update of 5.2 ms is 16.25 us a row.
    chains = systems.synchronous(COSTS, 1, 4)
    found = model.predicted(chains)
    assert found.sps == pytest.approx(1 / (0.25e-3 + 16.25e-6)) and found.binds == "envs"
    slow = dataclasses.replace(COSTS, infer_at=LinearCost(0.032, 0.0))  # 1 ms a row: now the envs are hidden
    assert model.predicted(systems.synchronous(slow, 1, 4)).sps == pytest.approx(1 / (1e-3 + 16.25e-6))


def test_synchronous_learners_pay_for_each_all_reduce_and_each_epoch() -> None:
    costly = dataclasses.replace(COSTS, reduce=lambda count, learners: count * 1e-6 * (learners - 1))
    # Two units of 2 workers: 160 rows each; 4,000 bytes take 4 ms; two epochs of four minibatches of 40 rows, 2.4 ms.
    found = model.predicted(systems.synchronous(costly, 2, 4, epochs=2, minibatches=4))
    of_a_row = 0.5e-3 + 8 * (2.4e-3 + 4e-3) / 160
    assert found.sps == pytest.approx(2 / of_a_row)


def test_the_store_binds_when_more_learners_update_than_it_has_chunks() -> None:
    costly = with_edges(store=LinearCost(0.0, 1e-4))  # 0.1 s for 1,000 parameters
    # 100 units of one worker: 80 rows an update. Three at once: 3 x 80 rows in 0.1 s.
    found = model.predicted(systems.asynchronous(costly, 100, 100))
    assert found.sps == pytest.approx(2400) and found.binds == "store's chunks"


def test_actors_bind_until_the_learner_does() -> None:
    # An actor: 1 ms + (1 ms + 1.6 ms) / 16 x 1.05 = 1.170625 ms a step. The learner: 8.4 ms for 640 rows, 76,190/s.
    few, many = (model.predicted(systems.impala(COSTS, 1, actors)) for actors in (10, 1000))
    assert few.sps == pytest.approx(10 / 1.170625e-3) and few.binds == "actors"
    assert many.sps == pytest.approx(640 / 8.4e-3) and many.binds == "update"
    # 89.2 actors saturate it; 95% of that are 84.7.
    assert 85 <= model.saturation(lambda actors: systems.impala(COSTS, 1, actors)) <= 92


def test_apex_uses_each_step_training_intensity_times() -> None:
    # The learner's 512 rows take 7.12 ms, for 64 steps at 8 uses and for 512 at one.
    for intensity, steps in ((8.0, 64), (1.0, 512)):
        found = model.predicted(systems.apex(COSTS, 1, 10**5, intensity=intensity))
        assert found.sps == pytest.approx(steps / 7.12e-3) and found.binds == "update"


def test_shards_divide_the_samples_and_messages_bind_where_bytes_are_expensive() -> None:
    costly = with_edges(draw=LinearCost(0.0, 1e-4), message=LinearCost(0.0, 1e-6))
    # 8 uses of 0.1 ms are 0.8 ms a step of a shard: four make 5,000.
    assert model.predicted(systems.apex(costly, 1, 10**5)).sps == pytest.approx(5000)
    # By messages a step is 800 bytes eight times, 6.4 ms, at the learner.
    found = model.predicted(systems.apex(costly, 1, 10**5, by_ray=True))
    assert found.sps == pytest.approx(1 / 6.4e-3) and found.binds == "learner's messages"


def test_parameter_shards_share_the_rule_and_not_the_messages() -> None:
    costly = with_edges(rule=LinearCost(0.0, 1e-3))  # a second for all parameters; an update for 64 steps
    for shards in (1, 4):
        found = model.predicted(systems.gorila(costly, 0, 10**4, shards=shards))
        assert found.sps == pytest.approx(64 * shards) and found.binds == "parameter shards"
    messages = with_edges(message=LinearCost(1.0, 0.0))  # one to and one from each shard, each shard's own
    for shards in (1, 4):
        found = model.predicted(systems.gorila(messages, 0, 10**4, shards=shards, by_ray=True))
        assert found.sps == pytest.approx(32)


def test_ga3c_is_bounded_by_its_model_s_process() -> None:
    costly = with_edges(reply=LinearCost(1.28e-3, 0.0))
    # 128 requests at once: 10 us each, and 0.2 ms / 128 to launch; an update's launch 2.2 ms / 80.
    found = model.predicted(systems.ga3c(costly, 1000))
    assert (
        found.sps == pytest.approx(1 / (10e-6 + 0.2e-3 / 128 + 2.2e-3 / 80))
        and found.binds == "model's process"
    )
