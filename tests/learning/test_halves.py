"""Half of a batch: its loss is that of a batch that was made of these envs, or of these rows, alone."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.policy_gradient import PolicyGradient
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.transitions import QLearningBatch, Transitions
from veldt.algorithms.vtrace import VTrace, VTraceConfig
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.errors import UsageError
from veldt.learning.diagnostics import Diagnostics
from veldt.networks.flat import FlatParameters
from veldt.networks.recurrent import LSTM
from veldt.runtime.shared import Layout
from veldt.sampling.unrolls import Unrolls, env_axis, unroll_layouts

STEPS, UNITS, ACTIONS = 6, 5, 3
ACTION = ActionSpec("discrete", sizes=(ACTIONS,), start=(0,))
# Stacks of frames, and a vector.
SPEC = EnvSpec({"frames": ArraySpec((3, 2), "uint8", stack=4), "vector": ArraySpec((2,), "float32")}, ACTION)
CPU = torch.device("cpu")


class Torso(nn.Module):
    features = 7

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 2 * 4 + 2, self.features)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        frames = observation["frames"].float().flatten(1) / 255
        return self.layer(torch.cat([frames, observation["vector"]], 1)).tanh()


def arrays_of(width: int, size: int) -> dict[str, np.ndarray]:
    """Unrolls with ends of episodes of every kind; `size` is that of the recurrent state."""
    rng = np.random.default_rng(3)
    layouts = unroll_layouts(SPEC, STEPS, width, ACTIONS, size)
    layouts["value"] = Layout((STEPS, width), "float32")
    if size:
        layouts["final_recurrent_state"] = Layout((width, size), "float32")
    arrays = {name: rng.normal(size=layout.shape).astype(layout.dtype) for name, layout in layouts.items()}
    arrays["observation/frames"] = rng.integers(0, 256, arrays["observation/frames"].shape, np.uint8)
    arrays["flags"] = rng.random(arrays["flags"].shape) < np.array([0.1, 0.1, 0.1, 0.1, 0.9])[:, None]
    arrays["action"] = rng.integers(0, ACTIONS, arrays["action"].shape)
    arrays["episode_step"] = rng.integers(0, 5, arrays["episode_step"].shape)
    return arrays


def of_envs(arrays: dict[str, np.ndarray], envs: list[int]) -> dict[str, np.ndarray]:
    return {name: np.take(array, envs, env_axis(name)) for name, array in arrays.items()}


def made(algorithm: PolicyGradient, arrays: dict[str, np.ndarray], forward: Any) -> Any:
    """The one batch of a phase."""
    generator = torch.Generator().manual_seed(0)
    (batch,) = algorithm.minibatches(forward, Unrolls(SPEC, arrays, CPU).rollout(), generator)
    return batch


def assert_same_loss(algorithm: PolicyGradient, network: nn.Module, half: Any, alone: Any) -> None:
    found = []
    for batch in (half, alone):
        network.zero_grad()
        loss = algorithm.loss(network, batch, 0.0)
        loss.total.backward()
        gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
        found.append({"loss": loss.total.detach(), "rows": loss.rows, **loss.metrics, **gradients})
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], msg=name)
    assert found[0]["train/entropy"] > 0


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("lstm", [0, UNITS])
@pytest.mark.parametrize("name", ["vtrace", "a2c", "a2c without values"])
def test_half_is_the_batch_of_every_second_env(name: str, lstm: int, width: int) -> None:
    torch.manual_seed(0)
    algorithm = VTrace(VTraceConfig(), ACTION) if name == "vtrace" else A2C(A2CConfig(), ACTION)
    network = algorithm.network(Torso, functools.partial(LSTM, units=lstm) if lstm else None)
    arrays = arrays_of(width, 2 * lstm)
    if "without" in name:
        del arrays["value"]
    whole = made(algorithm, arrays, network)
    half = whole.half_of_rows()
    is_in_order = lstm or name == "vtrace"
    if not is_in_order and width % 2:
        every_second_M = torch.arange(0, STEPS * width, 2)
        assert_same_loss(algorithm, network, half, whole.select(every_second_M))
        return
    alone = made(algorithm, of_envs(arrays, list(range(0, width, 2))), network)
    assert_same_loss(algorithm, network, half, alone)
    if is_in_order and width == 5:  # three envs, of which the first and the last are half
        assert_same_loss(
            algorithm, network, half.half_of_rows(), made(algorithm, of_envs(arrays, [0, 4]), network)
        )
        assert half.half_of_rows().half_of_rows().half_of_rows() is None


def test_observations_of_half_the_envs() -> None:
    arrays = arrays_of(4, 0)
    half, alone = (Unrolls(SPEC, arrays, CPU).rollout().half_of_rows(), of_envs(arrays, [0, 2]))
    expected = Unrolls(SPEC, alone, CPU).rollout()
    assert half is not None
    for index_N in (None, torch.tensor([3, 0, 11, 3])):
        found, wanted = half.observations.rows(index_N), expected.observations.rows(index_N)
        assert found.keys() == wanted.keys()  # type: ignore[union-attr]
        for field, value in found.items():  # type: ignore[union-attr]
            assert torch.equal(value, wanted[field])
    last, wanted = half.observations.last(), expected.observations.last()
    assert all(torch.equal(value, wanted[field]) for field, value in last.items())  # type: ignore[union-attr]


def test_a_single_env_or_row_has_no_half() -> None:
    torch.manual_seed(0)
    vtrace, a2c = VTrace(VTraceConfig(), ACTION), A2C(A2CConfig(), ACTION)
    assert made(vtrace, arrays_of(1, 0), a2c.network(Torso)).half_of_rows() is None
    recurrent = a2c.network(Torso, functools.partial(LSTM, units=UNITS))
    assert made(a2c, arrays_of(1, 2 * UNITS), recurrent).half_of_rows() is None
    rows = made(a2c, arrays_of(1, 0), a2c.network(Torso))
    assert len(rows.half_of_rows().action) == STEPS // 2
    assert rows.select(torch.tensor([2])).half_of_rows() is None
    ppo = PPO(PPOConfig(minibatches=2), ACTION)
    rollout = Unrolls(SPEC, arrays_of(3, 0), CPU).rollout()
    minibatch = next(ppo.minibatches(ppo.network(Torso), rollout, torch.Generator()))
    assert torch.equal(minibatch.half_of_rows().rows, minibatch.rows[:5])


@pytest.mark.parametrize("kind", [Transitions, QLearningBatch])
def test_half_of_sampled_rows_is_their_first_half(kind: Any) -> None:
    noise, none = torch.randn(3, 4), torch.zeros(0, 0)
    values = {field.name: torch.randn(7, 2) for field in dataclasses.fields(kind)}
    values["observation"] = {"x": torch.randn(7, 3), "y": torch.randn(7)}
    batch = kind(**values | {"noise": noise, "row_noise": none})
    half = batch.half_of_rows()
    assert half.noise is noise and half.row_noise.shape == (0, 0)
    assert torch.equal(half.action, batch.action[:3]) and torch.equal(half.weight, batch.weight[:3])
    assert all(torch.equal(half.observation[key], batch.observation[key][:3]) for key in ("x", "y"))
    assert half.half_of_rows().half_of_rows() is None


def test_a_batch_that_does_not_say_its_half_is_refused() -> None:
    diagnostics = Diagnostics(FlatParameters(nn.Linear(1, 1)), saturation=True)
    with pytest.raises(UsageError, match="of the type dict, which has no method half_of_rows: give it one"):
        diagnostics.before_backward({}, lambda half: pytest.fail("there is none"))
