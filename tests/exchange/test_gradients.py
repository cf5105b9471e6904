"""Several learners: the mean of their gradients, and the check that their weights are equal."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from fork_servers import answers
from veldt.errors import UsageError
from veldt.exchange.gradients import AllReduce


def learn(pipe: Connection, rank: int, count: int, rendezvous_file: Path, weights: int) -> None:
    """What a learner does; it says the mean gradient, the values of all, and how the weights differ, if they do."""
    edge = AllReduce(rank, count, rendezvous_file, torch.device("cpu"))
    gradient_P = torch.arange(3.0) * (rank + 1)
    edge.reduce(gradient_P)
    said = [gradient_P.tolist(), edge.all_gather([rank / 3, 1e-300])]
    try:
        edge.assert_same_on_all_ranks({"settings": -(2**62), "weights": weights})
    except UsageError as error:
        said.append(str(error))
    pipe.send_bytes(json.dumps(said).encode())


def learned(rendezvous_file: Path, weights: list[int]) -> list[list[Any]]:
    """What each learner says, whose weights have these digests."""
    said = answers(learn, [(rank, len(weights), rendezvous_file, own) for rank, own in enumerate(weights)])
    return [json.loads(each) for each in said]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What three learners say."""
    return learned(tmp_path_factory.mktemp("learners") / "rendezvous_file", [7, 7, 7])


def test_all_learners_get_the_mean_gradient(said: list[list[Any]]) -> None:
    assert [each[0] for each in said] == [[0.0, 2.0, 4.0]] * 3


def test_all_learners_get_the_values_of_all_by_rank(said: list[list[Any]]) -> None:
    """Every bit of them."""
    assert [each[1:] for each in said] == [[[[0.0, 1e-300], [1 / 3, 1e-300], [2 / 3, 1e-300]]]] * 3


@pytest.mark.parametrize("weights", [[7, 8], [7, -7]])
def test_learners_with_different_weights_are_refused(weights: list[int], tmp_path: Path) -> None:
    first, second = learned(tmp_path / "rendezvous_file", weights)
    assert first[2].startswith("learners 0 and 1 differ in their weights: all of them must have the same")
    assert second[2].startswith("learners 1 and 0 differ in their weights")
