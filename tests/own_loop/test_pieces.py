"""The pieces do what they say, in programs of a few processes."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import programs
import pytest
import torch

import veldt
from veldt.exchange.graph import WeightsSpec
from veldt.exchange.weights import SharedWeights
from veldt.own_loop import buffer_shard
from veldt.own_loop.buffer_ends import BufferSampler
from veldt.own_loop.piece import Users
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.row_format import RowFormat
from veldt.runtime.roles import Peers
from veldt.runtime.shared import Layout
from veldt.runtime.supervision.inline import InlineControl

ROWS: dict[str, Any] = {"row": programs.ROW, "source": "actor", "target": "learner", "capacity": 2000}


def test_every_gradient_is_applied_once() -> None:
    learners = veldt.Processes(programs.pushes, 2, {"times": 20})
    server = veldt.GradientServer(programs.zeros, programs.sgd, source="learner")
    done = veldt.run_roles({"learner": learners}, {"gradients": server})
    assert done.reason == "returned"
    for result in done.returned["learner"]:
        assert result["version"] == 40 and result["discarded"] == 0
        np.testing.assert_array_equal(result["weight"], np.full((1, 2), 40.0, np.float32))


def test_weights_arrive_whole_with_their_version() -> None:
    roles = {"learner": veldt.Processes(programs.publishes), "actor": veldt.Processes(programs.pulls, 2)}
    done = veldt.run_roles(roles, {"weights": veldt.ModelServer(programs.network, source="learner")})
    assert done.returned["learner"] == [4]
    for seen in done.returned["actor"]:
        assert seen[-1] == 4 and seen == sorted(seen)


def test_weights_of_the_same_version_are_pulled_again() -> None:
    actor = veldt.Processes(programs.pulls_the_second, ends_all=True)
    roles = {"learner": veldt.Processes(programs.publishes_twice_the_same), "actor": actor}
    server = veldt.ModelServer(programs.zeros, source="learner")
    assert veldt.run_roles(roles, {"weights": server}, seconds=60).returned["actor"] == [[5, 2, 2]]


def test_a_network_is_made_once_and_random_numbers_stay_as_they_are() -> None:
    made = []

    def network() -> Any:
        made.append(1)
        return programs.network()

    users = Users("weights", {"actor": 1, "learner": 1})
    own, state = programs.network(), torch.random.get_rng_state()
    server = veldt.ModelServer(network, source="learner")
    parts = server.parts(users)
    process = RoleProcess(InlineControl(), "learner", 0, 1)
    spec = parts.edges["weights weights"].spec
    assert isinstance(spec, WeightsSpec)
    client = server.open(users, process, {"weights": SharedWeights(spec.layouts, None)}, parts.layouts)
    client.publish(own)
    assert len(made) == 1 and torch.equal(state, torch.random.get_rng_state())


def program(buffer: veldt.DistributedBuffer, act: Any, learn: Any, act_kwargs: Any, learn_kwargs: Any) -> Any:
    roles = {
        "actor": veldt.Processes(act, 2, act_kwargs),
        "learner": veldt.Processes(learn, kwargs=learn_kwargs),
    }
    return veldt.run_roles(roles, {"replay": buffer}).returned["learner"][0]


@pytest.mark.parametrize("shards", [1, 2])
def test_rows_of_all_processes_are_drawn_alike(shards: int) -> None:
    buffer = veldt.DistributedBuffer(batch_size=50, learning_starts=400, shards=shards, **ROWS)
    result = program(buffer, programs.adds, programs.samples, {"rows": 200}, {"batches": 80})
    assert result["sizes"] == [50] * 80 and result["rows"] == 400
    found = result["found"][:, :200]
    assert found.sum() == 4000 and result["found"].sum() == 4000
    assert (found > 0).mean() > 0.99 and abs(found[0].sum() - 2000) < 250


def test_training_intensity_lets_the_learner_not_run_ahead() -> None:
    """400 rows, of which 100 come first, sampled 2 times each: 12 batches of 50. The next is never due."""
    buffer = veldt.DistributedBuffer(batch_size=50, learning_starts=100, training_intensity=2.0, **ROWS)
    roles = {
        "actor": veldt.Processes(programs.adds, 2, {"rows": 200}),
        "learner": veldt.Processes(programs.samples, kwargs={"batches": 100}),
    }
    done = veldt.run_roles(roles, {"replay": buffer}, seconds=3.0)
    assert done.reason == "seconds" and len(done.returned["learner"][0]["sizes"]) <= 12


def test_training_intensity_lets_actors_not_run_ahead() -> None:
    """Nobody samples: of each row one sample is due, so that only so many fit before a batch must be drawn."""
    buffer = veldt.DistributedBuffer(
        batch_size=50, learning_starts=100, training_intensity=1.0, deadline_s=0.2, **ROWS
    )
    roles = {
        "actor": veldt.Processes(programs.adds, 1, {"rows": 1000}),
        "learner": veldt.Processes(programs.takes_none),
    }
    with pytest.raises(
        veldt.VeldtError, match=r"the actor failed \((no batch was sampled|the buffer 'replay')"
    ):
        veldt.run_roles(roles, {"replay": buffer})


def test_episodes_are_sampled_whole() -> None:
    row = {"reward": ((), "float32"), "observation": ((2,), "float32")}
    buffer = veldt.DistributedBuffer(row, "actor", "learner", capacity=8, batch_size=8, episode_steps=4)
    roles = {
        "actor": veldt.Processes(programs.adds_episodes, 2),
        "learner": veldt.Processes(programs.samples_episodes),
    }
    (result,) = veldt.run_roles(roles, {"replay": buffer}).returned["learner"]
    assert result["equal"] and result["shape"] == [8, result["longest"], 2]


def test_new_priorities_decide_what_is_drawn() -> None:
    buffer = veldt.DistributedBuffer(batch_size=50, alpha=1.0, learning_starts=64, shards=2, **ROWS)
    result = program(buffer, programs.adds, programs.renews, {"rows": 32}, {})
    assert 0 < result["weight"] <= result["rest"] == 1


@pytest.mark.parametrize(
    ("priorities", "given"),
    [([], r"\[0\]"), ([1.0, -2.0, 3.0], r"\[3\] from -2 to 3"), ([[1.0, 2.0]], r"\[1, 2\] from 1 to 2")],
)
def test_priorities_that_are_not_of_the_batch_are_refused(priorities: Any, given: str) -> None:
    sampler = BufferSampler("replay", None, None, None, None, 1.0, 0, is_prioritised=True)  # type: ignore[arg-type]
    sampler._has_batch, sampler._size = True, 3
    with pytest.raises(veldt.UsageError, match=rf"'replay' are {given}: they must be \[3\], finite"):
        sampler.update(np.array(priorities))


def test_logged_values_and_the_reason_come_back() -> None:
    logged = []
    roles = {"one": veldt.Processes(programs.stops), "other": veldt.Processes(programs.waits, 2)}
    done = veldt.run_roles(roles, log=lambda process, values: logged.append((process, values)))
    assert logged == [("one", {"answer": 42, "mean": 1.5})]
    assert (done.reason, done.why) == ("stopped", "the answer is known")
    assert done.returned == {"one": [None], "other": ["asked", "asked"]}


def test_seconds_end_a_program() -> None:
    done = veldt.run_roles({"other": veldt.Processes(programs.waits)}, seconds=0.1)
    assert done.reason == "seconds" and done.returned == {"other": ["asked"]}


def test_a_program_that_its_seconds_end_has_no_sentence_of_a_role_that_stops_meanwhile() -> None:
    done = veldt.run_roles({"one": veldt.Processes(programs.stops_while_all_are_ending)}, seconds=0.1)
    assert (done.reason, done.why) == ("seconds", "")


def test_what_a_function_returns_comes_back_as_it_was() -> None:
    (result,) = veldt.run_roles({"one": veldt.Processes(programs.returns_values)}).returned["one"]
    programs.network().load_state_dict(result["network"])
    array, tensor = result["nested"][1]["deep"]
    assert result["nested"]["history"] == [(1, 2.0), (3, 4.0)] and result["mean"] == torch.tensor(0.5)
    assert array.tolist() == [0, 1, 2] and torch.equal(tensor, torch.ones(2, dtype=torch.bfloat16))
    array[0] = 7  # it may be written


def test_a_sleep_ends_when_all_are_asked_to_end_and_gives_signs_of_life() -> None:
    roles = {"one": veldt.Processes(programs.sleeps, deadline_s=1.0)}
    done = veldt.run_roles(roles, seconds=1.5)
    assert (done.reason, done.returned) == ("seconds", {"one": ["asked"]})


def test_the_end_of_a_role_can_end_all() -> None:
    roles = {
        "learner": veldt.Processes(programs.returns_values, ends_all=True),
        "actor": veldt.Processes(programs.waits),
    }
    done = veldt.run_roles(roles)
    assert (done.reason, done.returned["actor"]) == ("returned", ["asked"])


def test_it_is_logged_that_others_work_on_after_a_role_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.own_loop.program._STILL_S", 0.0)
    logged = []
    roles = {"learner": veldt.Processes(programs.returns_values), "aa": veldt.Processes(programs.waits, 2)}
    veldt.run_roles(roles, seconds=1.5, log=lambda *values: logged.append(values))
    ((who, said),) = logged
    assert who == "veldt" and said["note"].startswith("the learner has returned; aa 0, aa 1 still work: ")


@pytest.mark.parametrize("value", [3, np.int64(3), torch.tensor(3), np.uint16(3), True])
def test_a_whole_number_is_stored_in_a_small_dtype_where_it_fits(value: Any) -> None:
    row = RowFormat.of({"number": ((), "uint8")}, 0)
    into = {name: np.zeros((1, *layout.shape), layout.dtype) for name, layout in row.layouts.items()}
    row.write({"number": value}, into, 0)
    assert row.read(into)["number"].tolist() == [int(value)]


def test_a_tensor_of_a_type_that_numpy_lacks_is_stored_as_float32() -> None:
    row = RowFormat.of({"value": ((2,), "float32")}, 0)
    into = {name: np.zeros((1, *layout.shape), layout.dtype) for name, layout in row.layouts.items()}
    row.write({"value": torch.tensor([0.5, -2.0], dtype=torch.bfloat16)}, into, 0)
    assert row.read(into)["value"].tolist() == [[0.5, -2.0]]


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (
            300,
            "uint8",
            r"'number' of a row has the value 300, and the buffer's uint8 is for 0 to 255: name a larger",
        ),
        (-1, "uint8", r"has the value -1"),
        (np.int64(2**40), "int32", r"has the value 1099511627776, and the buffer's int32"),
        (1.5, "int64", r"is float64 \[\], and the buffer's is int64 \[\]: convert it, or name another"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(value: Any, dtype: str, message: str) -> None:
    row = RowFormat.of({"number": ((), dtype)}, 0)
    into = {name: np.zeros((1, *layout.shape), layout.dtype) for name, layout in row.layouts.items()}
    with pytest.raises(veldt.UsageError, match=message):
        row.write({"number": value}, into, 0)


@pytest.mark.parametrize(("here", "refused"), [(1, False), (2, True)])
def test_a_shard_asks_for_the_memory_of_its_own_machine(
    here: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shards of 100 rows of 8 bytes, where 1,000 bytes are available: too many for one machine."""
    monkeypatch.setattr(buffer_shard, "available_memory", lambda: 1_000)
    control = InlineControl()
    control.stopping, control.peers = True, Peers(0, here)
    plan = buffer_shard.BufferShardPlan("replay", {"row/x": Layout((), "int64")}, 100, 0.0, 0, shards=2)
    said = r"the buffer 'replay' needs .* on this machine, for 200 rows"
    with pytest.raises(veldt.UsageError, match=said) if refused else contextlib.nullcontext():
        buffer_shard.run_buffer_shard(control, plan, MagicMock(), ())
