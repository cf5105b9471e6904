"""Several learners: the mean of their gradients, and the check that their weights are equal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LEARNER = """
import sys
from pathlib import Path
import torch
from veldt.errors import UsageError
from veldt.exchange.gradients import AllReduce

rank, count, rendezvous_file, weights = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
edge = AllReduce(rank, count, rendezvous_file, torch.device("cpu"))
gradient_P = torch.arange(3.0) * (rank + 1)
edge.reduce(gradient_P)
print(gradient_P.tolist())
print(edge.all_gather([rank / 3, 1e-300]))
try:
    edge.assert_same_on_all_ranks({"settings": -(2**62), "weights": weights})
except UsageError as error:
    print(error)
"""


def learn(rendezvous_file: Path, weights: list[int]) -> list[list[str]]:
    """Lines of each learner, whose weights have these digests."""
    arguments = [
        [str(rank), str(len(weights)), str(rendezvous_file), str(own)] for rank, own in enumerate(weights)
    ]
    learners = [
        subprocess.Popen([sys.executable, "-u", "-c", LEARNER, *own], stdout=subprocess.PIPE, text=True)
        for own in arguments
    ]
    return [learner.communicate(timeout=60)[0].splitlines() for learner in learners]


def test_all_learners_get_the_mean_gradient(tmp_path: Path) -> None:
    assert [lines[0] for lines in learn(tmp_path / "rendezvous_file", [7, 7, 7])] == ["[0.0, 2.0, 4.0]"] * 3


def test_all_learners_get_the_values_of_all_by_rank(tmp_path: Path) -> None:
    """Every bit of them."""
    expected = [[0.0, 1e-300], [1 / 3, 1e-300], [2 / 3, 1e-300]]
    assert [lines[1:] for lines in learn(tmp_path / "rendezvous_file", [7, 7, 7])] == [[str(expected)]] * 3


@pytest.mark.parametrize("weights", [[7, 8], [7, -7]])
def test_learners_with_different_weights_are_refused(weights: list[int], tmp_path: Path) -> None:
    first, second = learn(tmp_path / "rendezvous_file", weights)
    assert first[2].startswith("learners 0 and 1 differ in their weights: all of them must have the same")
    assert second[2].startswith("learners 1 and 0 differ in their weights")
