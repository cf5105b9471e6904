"""The imitated accelerator as a fixture, and the traffic of a method's calls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import imitation
import pytest
import torch
from imitation import Traffic, recorded

from veldt.learning.diagnostics import Diagnostics
from veldt.runtime import devices

# Before any test: torch's first backward pass settles which devices its engine has threads for.
imitation.register()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The imitated accelerator; the host computes on one thread meanwhile.

    As CUDA does, it has read all of an array when a copy from ordinary memory returns.
    """
    monkeypatch.setattr(devices, "_READS_AT_ONCE", {imitation.NAME})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield imitation.register()
    torch.set_num_threads(threads)
    gc.collect()


@pytest.fixture
def traffic_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str], list[Traffic]]:
    """A function: class and method -> the traffic of each call from then on."""

    def watch(owner: type, name: str) -> list[Traffic]:
        calls: list[Traffic] = []
        original = getattr(owner, name)

        def watched(*args: Any) -> Any:
            with recorded() as traffic:
                calls.append(traffic)
                return original(*args)

        monkeypatch.setattr(owner, name, watched)
        return calls

    return watch


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor]]:
    """The norms of each update that is measured from here on."""
    found: list[dict[str, torch.Tensor]] = []
    after_update = Diagnostics.after_update

    def noted(diagnostics: Diagnostics) -> dict[str, torch.Tensor]:
        metrics = after_update(diagnostics)
        if metrics:
            found.append(metrics)
        return metrics

    monkeypatch.setattr(Diagnostics, "after_update", noted)
    return found
