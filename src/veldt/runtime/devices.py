"""Chooses the device for computation, and the number of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from veldt.errors import UsageError
from veldt.runtime.cores import allowed_cores
from veldt.setting_metadata import check_type, flag


def choose_device(name: str) -> torch.device:
    """Returns the device for `auto`, `cpu`, `cuda` or `cuda:N`. UsageError if it does not exist."""
    check_type(flag("device"), name, str)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"--device {name} is not a device: use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"--device {name} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"--device {name} does not exist: torch finds {torch.cuda.device_count()} CUDA devices on this machine"
        )
    return device


def nth_device(name: str, number: int) -> torch.device:
    """Returns the device of the process `number` among several equal ones: accelerators are assigned in turn."""
    device = torch.device(name)
    if device.type != "cuda" or number == 0:
        return device
    return torch.device("cuda", ((device.index or 0) + number) % torch.cuda.device_count())


def training_threads(asked: int) -> int:
    """Returns the threads for training on the CPU: `asked`, or one per usable core."""
    return asked or len(allowed_cores())


def inference_threads(training: int, groups: int, workers: bool) -> int:
    """Returns the threads for inference on the CPU.

    Env processes step one group while the other waits for its actions. Inference on all cores would delay all of them,
    for the few rows of one group.
    """
    return max(1, training // groups) if workers and groups > 1 else training


@contextlib.contextmanager
def flush_denormals() -> Iterator[None]:
    """Makes this thread, and threads that it starts, treat denormal numbers as 0.

    Torch starts its own threads with its first parallel work, so this must be entered before.

    An optimiser's running averages of gradients that have become 0 (of inactive network units, for example) decay to
    denormal numbers, with which a processor computes a hundred times as slowly.
    """
    flushed = float(torch.tensor(1e-310, dtype=torch.float64) * 0.5) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Computes on one thread, for results that must be the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
