"""The memory of a replay buffer's batches: one on the CPU, two page-locked ones for a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from veldt.learning.batch_memory import BatchMemory
from veldt.runtime.devices import to_device
from veldt.runtime.shared import Layout

LAYOUTS = {
    "observation/": Layout((512, 84, 84, 4), "uint8"),
    "mass": Layout((512,), "float64"),
    "key": Layout((512,), "int64"),
}


def test_on_the_cpu_it_is_one_batch() -> None:
    memory = BatchMemory(LAYOUTS, torch.device("cpu"))
    first = memory.next()
    memory.copies_are_queued()
    assert memory.next() is first and len(first) == 512
    assert {name: array.dtype.name for name, array in first.arrays.items()} == {
        name: layout.dtype for name, layout in LAYOUTS.items()
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_batch_is_not_written_before_the_device_has_fetched_it() -> None:
    device, copies = torch.device("cuda"), []
    memory = BatchMemory(LAYOUTS, device)
    rng = np.random.default_rng(0)
    for number in range(8):
        batch = memory.next()
        for array in batch.arrays.values():
            array[:] = number
        assert torch.from_numpy(batch.mass_N).is_pinned()
        torch.cuda._sleep(int(rng.integers(1, 50_000_000)))  # the device is busy: copies have to wait
        copies.append([to_device(torch.from_numpy(array), device) for array in batch.arrays.values()])
        memory.copies_are_queued()
    for number, tensors in enumerate(copies):
        assert all((tensor == number).all() for tensor in tensors)
