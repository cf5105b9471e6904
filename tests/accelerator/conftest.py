"""The imitated accelerator as a fixture."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import imitation
import pytest
import torch

from veldt.runtime import devices


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
