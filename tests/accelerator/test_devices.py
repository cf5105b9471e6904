"""Devices by their names: any type that torch knows here and has a device of."""

from __future__ import annotations

import pytest
import torch

from veldt.errors import UsageError
from veldt.runtime.devices import accelerator_name, choose_device, nth_device, num_accelerators
from veldt.systems.planning.run_plan import planned_device


def test_any_device_of_torch_is_accepted_by_its_name(device: torch.device) -> None:
    assert choose_device("imitation") == torch.device("imitation")
    assert choose_device("imitation:0") == device
    assert num_accelerators(device) == 1 and accelerator_name(device) == "an imitation"
    assert nth_device("imitation", 1) == device


def test_auto_takes_only_what_torch_says_is_there(device: torch.device) -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("imitation:1", "--device imitation:1 does not exist: torch finds 1 IMITATION devices"),
        ("meta", "--device meta is not supported"),
        ("toaster", "--device toaster is not a device"),
    ],
)
def test_others_are_refused(name: str, message: str, device: torch.device) -> None:
    with pytest.raises(UsageError, match=message):
        choose_device(name)


def test_auto_leaves_the_gpu_to_others_where_the_network_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    small, large = (lambda: torch.nn.Linear(8, 8)), (lambda: torch.nn.Linear(1024, 512))
    assert planned_device("auto", small) == (
        torch.device("cpu"),
        ("device cpu (too small to gain from the CUDA device)",),
    )
    assert planned_device("auto", large) == (torch.device("cuda"), ())
    assert planned_device("cuda", small) == (torch.device("cuda"), ())
