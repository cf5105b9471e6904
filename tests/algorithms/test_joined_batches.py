"""Learners that share batches equal one learner with the joined batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LEARNER = Path(__file__).with_name("joint_learner.py")


def learned(algorithm: str, count: int, rendezvous_file: Path) -> list[np.ndarray]:
    """The parameters of each of `count` learners, [P]."""
    learners = [
        subprocess.Popen(
            [sys.executable, LEARNER, algorithm, str(rank), str(count), rendezvous_file],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    return [np.array(learner.communicate(timeout=120)[0].split(), float) for learner in learners]


# Their rollouts have reset steps, and one has more than the other.
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_learners_equal_one_learner_with_the_joined_batch(algorithm: str, tmp_path: Path) -> None:
    (alone,) = learned(algorithm, 1, tmp_path / "alone")
    first, second = learned(algorithm, 2, tmp_path / "two")
    assert first.tolist() == second.tolist()
    # RMSProp makes much of rounding where a gradient is nearly nothing.
    np.testing.assert_allclose(first, alone, rtol=0, atol=1e-5)
