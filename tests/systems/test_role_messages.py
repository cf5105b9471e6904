"""Messages of roles arrive unchanged, as JSON and arrays; unknown kinds are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from veldt.errors import VeldtError
from veldt.own_loop.messages import Logged, Returned, StopAll
from veldt.runtime.messages import pack, unpack
from veldt.runtime.role_messages import Ended, Failed, FailedAtEnd, Note, Restarted, RoleMessage, Started
from veldt.sampling.episodes import Episode
from veldt.systems.roles.messages import (
    ActorMetrics,
    CurrentWeights,
    FinishedEpisodes,
    FinishedEvaluation,
    LearnerMetrics,
    SnapshotPart,
    WrittenSegments,
)

GROUPS = {
    "weights": {"torso.0:weight": np.arange(6, dtype=np.float32).reshape(2, 3), "scale": np.array(2.5)},
    "a/group: of none": {},
    "envs": {"observation/0": np.zeros((0, 4), np.uint8)},
}
EPISODES = [Episode(7, 0, 3, 12.5, np.array([[1, 0]])), Episode(2, 11, 0, -1.0, np.array([[0, 1], [2, 2]]))]
MESSAGES = [
    Started(trace=5, pid=12),
    Ended(),
    Failed("no room", "a traceback", is_final=True, is_echo=False),
    Restarted("actor 3", "died", ""),
    FailedAtEnd("actor 3", "died", "a traceback"),
    Note("said", "restart"),
    FinishedEpisodes(EPISODES, [2**60, 5]),
    FinishedEpisodes([], []),
    ActorMetrics(1, 20, 3, {"wait": 0.25}),
    ActorMetrics(0, 0, 0),
    LearnerMetrics(
        2,
        {"train/loss": 0.5},
        1.0,
        0.0,
        3.0,
        1e-3,
        40,
        {"train": 1.5},
        {"replay/transitions": 9.0},
        {"train/loss": 1},
    ),
    FinishedEvaluation(1000, [1.0, -2.0], [10, 20]),
    SnapshotPart(3, GROUPS, rank=1, updates=9, steps=70, state={"episodes": {"prefix": [0, 1]}}),
    SnapshotPart(4, {}, replay="shard-0"),
    WrittenSegments(4, "shard-0", [{"file": "a.bin", "first": [0], "end": [9]}]),
    CurrentWeights(GROUPS["weights"]),
    Logged({"episode": 3, "weights": GROUPS["weights"]["scale"]}),
    StopAll("all updates are done"),
    Returned({"error": 0.5, "network": GROUPS["weights"]}),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Episode):
        return same(vars(one), vars(other))
    return bool(one == other) and type(one) is type(other)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.kind)
def test_a_message_arrives_as_it_was(message: RoleMessage) -> None:
    arrived = RoleMessage.from_bytes(message.to_bytes())
    assert type(arrived) is type(message)
    for field in fields(message):  # type: ignore[arg-type]
        assert same(getattr(message, field.name), getattr(arrived, field.name)), field.name


def test_these_tests_have_every_kind_of_message() -> None:
    assert {type(message) for message in MESSAGES} >= {
        one for one in RoleMessage.__subclasses__() if one.__module__.startswith("veldt.")
    }


def test_actions_travel_as_one_array() -> None:
    _, arrays = unpack(FinishedEpisodes(EPISODES, [1, 2]).to_bytes())
    assert [array.shape for array in arrays.values()] == [(3, 2)]


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({"kind": "letter"}, "unknown kind 'letter': known are .*import the module"),
        ({}, "unknown kind 'None'"),
        ({"kind": "episodes", "values": {}}, "'episodes' without its field 'episodes'"),
        (
            {"kind": "started", "values": {"pid": 1}},
            "'started' without its field 'trace': its fields are trace, pid",
        ),
        ({"kind": "ended", "values": {"when": 1}}, "'ended' with the unknown field 'when'"),
    ],
)
def test_an_unreadable_message_is_an_error_of_one_sentence(header: dict[str, Any], sentence: str) -> None:
    with pytest.raises(VeldtError, match=sentence):
        RoleMessage.from_bytes(pack(header))


def test_two_classes_cannot_have_one_kind() -> None:
    with pytest.raises(ValueError, match=r"'note' are veldt\.runtime\.role_messages\.Note: take another"):

        @dataclass(frozen=True)
        class Other(RoleMessage, kind="note"):
            pass
