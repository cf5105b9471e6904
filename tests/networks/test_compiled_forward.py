"""A compiled forward pass takes the network's arguments, and uses the network itself where compiling fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from veldt.networks.flat import FlatParameters
from veldt.networks.precision import CompiledForward


class Weighted(nn.Module):
    """A network of two arguments."""

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        return x if noise is None else x + 2 * noise


def failing(network: nn.Module) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no compiler here\nand more")

    return forward


@pytest.mark.parametrize("compiler", [lambda network: network, failing], ids=["works", "fails"])
def test_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Any]) -> None:
    monkeypatch.setattr(torch, "compile", compiler)
    said: list[str] = []
    x, noise = torch.ones(2), torch.ones(2)
    forward = CompiledForward(Weighted(), said.append)
    assert forward(x).tolist() == [1.0, 1.0]
    assert forward(x, noise).tolist() == [3.0, 3.0]
    assert forward(x, noise=noise).tolist() == [3.0, 3.0]
    expected = ["torch.compile failed (no compiler here): continuing without it"]
    assert said == (expected if compiler is failing else [])
    assert CompiledForward(Weighted(), said.append)(x, noise=noise).tolist() == [3.0, 3.0]


def test_a_networks_own_failure_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", failing)
    with pytest.raises(TypeError):
        CompiledForward(Weighted(), lambda text: None)(torch.ones(2), loudness=1)


def test_two_threads_may_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread already uses the network itself while the other's compiled call has not failed yet."""
    fallen: list[Any] = []

    def compiler(network: nn.Module) -> Callable[..., Any]:
        def compiled(x: Tensor) -> Any:
            if not fallen:
                fallen.append(None)
                fallen[0] = forward(x)  # the other's
            raise RuntimeError("no compiler here")

        return compiled

    monkeypatch.setattr(torch, "compile", compiler)
    forward = CompiledForward(Weighted(), lambda text: None)
    assert forward(torch.ones(2)).tolist() == [1.0, 1.0] == fallen[0].tolist()


def overwriting(network: nn.Module, **options: object) -> Callable[..., Any]:
    """A compiler whose results are, as those of CUDA graphs, in memory that the next call writes to."""
    memory = torch.empty(2)

    def forward(x: Tensor) -> Any:
        memory.copy_(network(x))
        return memory, (memory,)

    return forward


def test_results_of_cuda_graphs_outlast_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", overwriting)
    forward = CompiledForward(Weighted(), lambda text: None, cuda_graphs=True)
    first, (again,) = forward(torch.ones(2))
    forward(torch.zeros(2))
    assert first.tolist() == again.tolist() == [1.0, 1.0]


def test_a_loss_of_each_parameter_group_through_a_compiled_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of DDPG's actor and critic: each has a backward pass, and torch.compile retains no graph."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    network = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    vectors, forward = FlatParameters(network), CompiledForward(network, pytest.fail)
    members = {"first": range(4), "last": range(4, 6)}
    for rows in (2, 5):  # from the second size on, sizes are variables of the compiled graph
        x = torch.randn(rows, 3)
        found = []
        for pass_ in (forward, network):
            losses = {"first": pass_(x).square().mean(), "last": pass_(x + 1.0).mean()}
            vectors.backward_by_group(losses, members)
            found.append(vectors.gradient.clone())
        torch.testing.assert_close(*found)
        assert found[0].any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_cuda_graphs_compute_what_the_network_computes() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).cuda()
    forward = CompiledForward(network, pytest.fail, cuda_graphs=True)
    parameters = list(network.parameters())
    for rows in (2, 5, 2, 5, 2, 5):  # acting and learning in turn
        x = torch.randn(rows, 3, device="cuda")
        got = torch.autograd.grad(forward(x).square().mean(), parameters)
        expected = torch.autograd.grad(network(x).square().mean(), parameters)
        torch.testing.assert_close(got, expected)
        with torch.no_grad():
            torch.testing.assert_close(forward(x), network(x))
        for parameter in parameters:
            parameter.data.add_(0.1)
