"""Acting: sampled actions and the recorded policy, for every kind of action; what other algorithms may return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.spec import ActionSpec
from veldt.sampling.checked_actions import checked_act, num_noise

SPECS = {
    "discrete": ActionSpec("discrete", sizes=(4,), start=(0,)),
    "multi": ActionSpec("multi", sizes=(3, 2), start=(0, 0), env_shape=(2,)),
    "box": ActionSpec("box", low=(-1.0,) * 2, high=(1.0,) * 2, env_shape=(2,), env_dtype="float32"),
}
ROWS = 6


@pytest.mark.parametrize("kind", SPECS)
def test_actions_are_those_of_the_action_space_and_the_policy_is_stored(kind: str) -> None:
    own = A2C(A2CConfig(), SPECS[kind])
    policy = torch.randn(ROWS, own.distribution.num_parameters, generator=torch.Generator().manual_seed(0))
    value = torch.arange(ROWS).float()

    def forward(observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return policy, value

    drawn = uniform(1, ACTION, np.arange(ROWS), np.arange(1), own.action_noise(torch.nn.Identity()))
    noise = own.prepare_noise(torch.from_numpy(drawn), 0)[0]
    action, remembered = own.act(forward, torch.zeros(ROWS), noise)
    assert action.shape == (ROWS, *SPECS[kind].shape)
    assert str(action.dtype) == f"torch.{SPECS[kind].dtype}"
    assert torch.equal(action, own.distribution.sample(policy, noise))
    assert torch.equal(remembered["policy"], policy)
    assert torch.equal(remembered["value"], value)
    assert torch.equal(own.best_action(forward, torch.zeros(ROWS)), own.distribution.mode(policy))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64])
def test_actions_of_a_box_may_be_of_any_type(dtype: torch.dtype) -> None:
    """A network computes in bfloat16 with `--precision bf16`, and numpy does not have this type."""
    algorithm: Any = None
    action, _ = checked_act((torch.tensor([[1, 0], [-1, 1]], dtype=dtype), {}), 2, SPECS["box"], algorithm)
    assert action.dtype == np.float32 and action.tolist() == [[1.0, 0.0], [-1.0, 1.0]]


def test_the_number_of_noise_may_be_one_of_numpys() -> None:
    """As `np.prod` of a shape is."""

    class Algorithm:
        def action_noise(self, network: Any) -> Any:
            return np.prod((2, 3))

    algorithm: Any = Algorithm()
    width = num_noise(algorithm, torch.nn.Identity())
    assert width == 6 and type(width) is int
