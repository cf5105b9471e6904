"""Chooses the device for computation, and the number of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from veldt.errors import UsageError
from veldt.runtime.cores import allowed_cores
from veldt.setting_metadata import check_type
from veldt.setting_text import flag

# Types of device to which a copy from ordinary memory has read all of it when the call returns, also without waiting
# for the work that is queued on the device.
_READS_AT_ONCE = {"cuda"}


def choose_device(name: str) -> torch.device:
    """Returns the device for `auto`, `cpu`, `cuda`, `cuda:N`, or another name that torch knows here.

    Raises UsageError if it does not exist.
    """
    check_type(flag("device"), name, str)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"--device {name} is not a device: use auto, cpu, cuda or cuda:N") from None
    if device.type != "cpu" and not hasattr(_module(device), "device_count"):
        raise UsageError(f"--device {name} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type != "cpu" and (device.index or 0) >= (found := num_accelerators(device)):
        raise UsageError(
            f"--device {name} does not exist: torch finds {found} {device.type.upper()} devices on this machine"
        )
    return device


def _module(device: torch.device) -> Any:
    """torch's module for the type of an accelerator, such as `torch.cuda`; None if there is none."""
    return getattr(torch, device.type, None)


def num_accelerators(device: torch.device) -> int:
    """Returns the number of devices of its type on this machine, 0 for the CPU."""
    return 0 if device.type == "cpu" else int(_module(device).device_count())


def accelerator_name(device: torch.device) -> str:
    """Returns the name of an accelerator's model, or of its type where torch knows no more."""
    name_of = getattr(_module(device), "get_device_name", None)
    return device.type if name_of is None else str(name_of(device))


def describe_devices(device: torch.device) -> dict[str, str | int]:
    """Returns what this process computes with: how many cores it may use, their instruction set, and an accelerator."""
    found: dict[str, str | int] = {"cores": len(allowed_cores()), "instruction_set": instruction_set()}
    return found if device.type == "cpu" else {**found, "gpu": accelerator_name(device)}


def instruction_set() -> str:
    """Returns the processor's instruction set that torch uses, on which the rounding of its sums depends."""
    return str(torch.backends.cpu.get_cpu_capability())


def synchronise(device: torch.device) -> None:
    """Waits until an accelerator has done all queued work; nothing on the CPU."""
    if device.type != "cpu":
        _module(device).synchronize(*([device] if num_accelerators(device) > 1 else []))


def side_stream(device: torch.device) -> Any:
    """Returns a new stream, which works beside the current one; None if the device has no streams."""
    make = None if device.type == "cpu" else getattr(_module(device), "Stream", None)
    return None if make is None else make(device)


def current_stream(device: torch.device) -> Any:
    """Returns the stream on which work is queued, of a device that has a `side_stream`."""
    return _module(device).current_stream(device)


def on_stream(device: torch.device, stream: Any) -> contextlib.AbstractContextManager[Any]:
    """A context in which work is queued on `stream`; None stands for the current one."""
    return contextlib.nullcontext() if stream is None else _module(device).stream(stream)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor from ordinary memory to `device`, where possible without waiting for the work queued there.

    (`tensor.to` waits.) Ordinary memory has been read when this returns. Page-locked memory may be read later: who
    writes to it again waits for that first. On the CPU it is the tensor itself.
    """
    return tensor.to(device, non_blocking=device.type in _READS_AT_ONCE)


def in_host_memory(tensor: Tensor) -> Tensor:
    """Returns the tensor itself if it is in host memory, else an uninitialised one like it there, for copies to and
    from its device."""
    if tensor.device.type == "cpu":
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


def nth_device(name: str, number: int) -> torch.device:
    """Returns the device of the process `number` among several equal ones: accelerators are assigned in turn."""
    device = torch.device(name)
    if device.type == "cpu" or number == 0:
        return device
    return torch.device(device.type, ((device.index or 0) + number) % num_accelerators(device))


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
