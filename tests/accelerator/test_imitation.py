"""The imitated accelerator itself: it computes as the CPU does, and sees what it is there to see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from imitation import recorded
from torch import Tensor, nn


def test_a_network_learns_on_it_as_on_the_cpu(device: torch.device) -> None:
    torch.manual_seed(0)
    inputs, network = torch.randn(5, 3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    expected = torch.autograd.grad(network(inputs).square().mean(), list(network.parameters()))
    network.to(device)
    on_device = inputs.to(device)
    got = torch.autograd.grad(network(on_device).square().mean(), list(network.parameters()))
    assert all(gradient.device == device for gradient in got)
    for one, two in zip(expected, got, strict=True):
        assert torch.equal(one, two.cpu())


def test_views_and_assigned_data_share_memory(device: torch.device) -> None:
    whole = torch.zeros(6, device=device)
    parameter = nn.Parameter(torch.ones(2, 3, device=device))
    parameter.data = whole.view(2, 3)
    whole[3:].fill_(7.0)
    assert parameter.detach().cpu().tolist() == [[0.0] * 3, [7.0] * 3]


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: torch.stack([x[0], torch.tensor(1.0)]),
        lambda x: x.index_select(0, torch.tensor([0])),
        lambda x: torch.where(x > 0, x, torch.zeros(3)),
    ],
)
def test_operations_on_tensors_of_two_devices_are_refused(
    mixed: Callable[[Tensor], Tensor], device: torch.device
) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        mixed(torch.ones(3, device=device))


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: float(x.sum()),
        lambda x: x.cpu(),
        lambda x: torch.zeros(3).copy_(x),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: torch.equal(x, x),
        lambda x: bool((x > 0).all()),
        lambda x: x.tolist(),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: torch.ones(3).to(x.device),
        lambda x: torch.tensor([1.0], device=x.device),
    ],
)
def test_synchronisations_are_recorded(waits: Callable[[Tensor], object], device: torch.device) -> None:
    x = torch.ones(3, device=device)
    with recorded() as traffic:
        waits(x)
    assert len(traffic.synchronisations) == 1


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda x: x + 1.0,
        lambda x: x + torch.tensor(1.0),
        lambda x: x[torch.arange(2, device=x.device)],
        lambda x: x.masked_fill(x > 0, 0.0),
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: torch.zeros(3, device=x.device),
        lambda x: torch.full((3,), 2.0, device=x.device),
        lambda x: x.clone().fill_(2.0),
        lambda x: x.to(torch.float64),
        lambda x: torch.ones(3).to(x.device, non_blocking=True),
    ],
)
def test_nothing_else_counts_as_one(goes_on: Callable[[Tensor], object], device: torch.device) -> None:
    x = torch.ones(3, device=device)
    with recorded() as traffic:
        goes_on(x)
    assert not traffic.synchronisations


def test_copies_are_recorded_with_their_bytes(device: torch.device) -> None:
    with recorded() as traffic:
        torch.zeros(2, 5, dtype=torch.uint8).to(device)
        torch.zeros(3, device=device).cpu()
    assert [(copy.dtype, copy.nbytes) for copy in traffic.uploads] == [(torch.uint8, 10)]
    assert [(copy.dtype, copy.nbytes) for copy in traffic.downloads] == [(torch.float32, 12)]


def test_a_recording_inside_another_ends_alone(device: torch.device) -> None:
    with recorded() as outer:
        with recorded() as inner:
            torch.zeros(3).to(device)
        torch.zeros(2).to(device)
    assert [copy.shape for copy in inner.uploads] == [(3,)]
    assert [copy.shape for copy in outer.uploads] == [(3,), (2,)]
