"""Learners that share batches equal one learner with the joined batch."""

from __future__ import annotations

from pathlib import Path

import joint_learner
import numpy as np
import pytest

from fork_servers import answers


def learned(algorithm: str, count: int, rendezvous_file: Path) -> list[np.ndarray]:
    """The parameters of each of `count` learners, [P]."""
    said = answers(joint_learner.learn, [(algorithm, rank, count, rendezvous_file) for rank in range(count)])
    return [np.frombuffer(each, np.float32) for each in said]


# Their rollouts have reset steps, and one has more than the other.
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_learners_equal_one_learner_with_the_joined_batch(algorithm: str, tmp_path: Path) -> None:
    (alone,) = learned(algorithm, 1, tmp_path / "alone")
    first, second = learned(algorithm, 2, tmp_path / "two")
    assert first.tolist() == second.tolist() != []
    # RMSProp makes much of rounding where a gradient is nearly nothing.
    np.testing.assert_allclose(first, alone, rtol=0, atol=1e-5)
