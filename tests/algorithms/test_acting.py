"""Acting: sampled actions and the recorded policy, for every kind of action."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.envs.seeding import ACTION, uniform
from veldt.envs.spec import ActionSpec

SPECS = {
    "discrete": ActionSpec("discrete", sizes=(4,), start=(0,)),
    "multi": ActionSpec("multi", sizes=(3, 2), start=(0, 0), env_shape=(2,)),
    "box": ActionSpec("box", low=(-1.0,) * 2, high=(1.0,) * 2, env_shape=(2,), env_dtype="float32"),
}
ROWS = 6


@pytest.mark.parametrize("kind", SPECS)
def test_actions_are_those_of_the_action_space_and_the_policy_is_stored(kind: str) -> None:
    own = A2C(A2CConfig(), SPECS[kind])
    policy = torch.randn(ROWS, own.distribution.parameters, generator=torch.Generator().manual_seed(0))
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
