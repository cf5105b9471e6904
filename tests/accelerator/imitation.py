"""An accelerator that every machine has: torch's PrivateUse1 backend, whose tensors lie in the CPU's memory.

Torch sees a device of its own, `imitation:0`. So code takes the paths that it takes on a GPU, the kernels are the
CPU's, and results can be compared bit for bit. It refuses operations on tensors of several devices as CUDA does, and
records what the host and the device exchange:

    upload      a copy from the host. If it blocks, it is a synchronisation too: CUDA waits for it and all queued work
    download    a copy to the host; always a synchronisation
    wait        an operation whose result or shape the host must know: `item`, `nonzero`, `equal`, a mask as an index

It computes at once: it has no queue, no streams and no speed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

NAME = "imitation"
aten = torch.ops.aten

# The host waits for these, because it needs their result or the shape of it.
_WAITS = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.unique_dim.default,
    aten._unique2.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
}
_INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
_MASKS = (torch.bool, torch.uint8)


@dataclass(frozen=True)
class Copy:
    dtype: torch.dtype
    shape: tuple[int, ...]
    is_blocking: bool

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * torch.Size(self.shape).numel()


@dataclass(
    eq=False
)  # one that is recorded inside another is not the same, though it may have the same content
class Traffic:
    """What was recorded. `operations` has the name of every operation with the shapes of its tensors."""

    uploads: list[Copy] = field(default_factory=list)
    downloads: list[Copy] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    operations: list[tuple[str, tuple[tuple[int, ...], ...]]] = field(default_factory=list)

    @property
    def synchronisations(self) -> list[Any]:
        """Everything for which the host waits until the device has done all queued work."""
        return [*(copy for copy in self.uploads if copy.is_blocking), *self.downloads, *self.waits]


_recording: list[Traffic] = []


@contextlib.contextmanager
def recorded() -> Iterator[Traffic]:
    """Records the traffic of the block, of all threads (torch makes backward passes in one of its own)."""
    traffic = Traffic()
    _recording.append(traffic)
    try:
        yield traffic
    finally:
        _recording.remove(traffic)


class OnDevice(torch.Tensor):
    """A tensor on the device. `host` has its values, in the same memory layout."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> OnDevice:
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device(NAME, 0),
        )
        wrapper.host = host
        return wrapper

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnDevice({self.host!r})"

    # Assigning `data` replaces the tensor inside, of which torch knows nothing.
    @property
    def data(self) -> torch.Tensor:
        return torch._C.TensorBase.data.__get__(self)  # type: ignore[attr-defined]

    @data.setter
    def data(self, value: OnDevice) -> None:
        torch._C.TensorBase.data.__set__(self, value)  # type: ignore[attr-defined]
        self.host = value.host

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is aten.copy_.default:
            return _copy(*args, **kwargs)
        if func is aten._to_copy.default:
            return _to_copy(*args, **kwargs)
        tensors = [each for each in _leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        _check_devices(func, tensors)
        _record(func, args, tensors)
        wrappers = {id(each.host): each for each in tensors if isinstance(each, OnDevice)}
        args, kwargs = _replaced((args, kwargs), OnDevice, lambda each: each.host)
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")

        def wrapped(result: torch.Tensor) -> OnDevice:
            own = wrappers.get(id(result))  # an operation in place returns the tensor that it was given
            return OnDevice(result) if own is None else own

        return _replaced(func(*args, **kwargs), torch.Tensor, wrapped)


# As torch.utils._pytree, which takes most of the time of a small operation.
def _leaves(value: Any) -> Iterator[Any]:
    """Yields what the lists, tuples and dictionaries of `value` hold, at any depth."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _replaced(value: Any, kind: type, by: Callable[[Any], Any]) -> Any:
    """Returns `value` with `by` of each leaf of this kind in its place."""
    if isinstance(value, kind):
        return by(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(each, kind, by) for each in value])
    if isinstance(value, dict):
        return {name: _replaced(each, kind, by) for name, each in value.items()}
    return value


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.host if isinstance(tensor, OnDevice) else tensor


def _transferred(source: torch.Tensor, to_device: bool, non_blocking: bool) -> None:
    from_device = isinstance(source, OnDevice)
    copy = Copy(source.dtype, tuple(source.shape), not non_blocking)
    for traffic in _recording:
        if to_device and not from_device:
            traffic.uploads.append(copy)
        if from_device and not to_device:
            traffic.downloads.append(copy)


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    # A tensor [] of the host is an argument of a kernel (`tensor[i] = 1.0`).
    if source.ndim or isinstance(source, OnDevice):
        _transferred(source, isinstance(target, OnDevice), non_blocking)
    _host(target).copy_(_host(source))
    return target


def _to_copy(source: torch.Tensor, *, non_blocking: bool = False, **options: Any) -> torch.Tensor:
    device = options.pop("device", None)
    to_device = isinstance(source, OnDevice) if device is None else device.type == NAME
    _transferred(source, to_device, non_blocking)
    out = aten._to_copy.default(_host(source), **options)
    return OnDevice(out) if to_device else out


def _check_devices(func: Any, tensors: Sequence[torch.Tensor]) -> None:
    for each in tensors:
        if isinstance(each, OnDevice):
            continue
        if each.ndim == 0 and torch.Tag.pointwise in func.tags:
            continue  # an argument of the kernel
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
            f"{each.device}! ({func})"
        )


def _record(func: Any, args: Any, tensors: Sequence[torch.Tensor]) -> None:
    if not _recording:
        return
    is_mask = func in _INDEXED and any(each is not None and each.dtype in _MASKS for each in args[1])
    for traffic in _recording:
        traffic.operations.append((str(func), tuple(tuple(each.shape) for each in tensors)))
        if func in _WAITS or is_mask:
            traffic.waits.append(str(func))


class _Module(_DummyBackendModule):
    """What stands at `torch.imitation`."""

    def synchronize(self, device: Any = None) -> None:
        for traffic in _recording:
            traffic.waits.append("synchronize")

    def get_device_name(self, device: Any = None) -> str:
        return "an imitation"


class _Hook(_DummyPrivateUse1Hook):
    def is_available(self) -> bool:
        return False  # torch must not take it for the machine's accelerator where nobody asked for it


def _empty(
    size: Sequence[int],
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> OnDevice:
    return OnDevice(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> OnDevice:
    return OnDevice(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return _copy(target, source, non_blocking)


_library: torch.library.Library | None = None


def register() -> torch.device:
    """Makes the device known to torch; a process can do so once, and never undo it."""
    global _library
    if _library is None:
        _setup_privateuseone_for_python_backend(NAME, _Module(), _Hook())
        _library = torch.library.Library("aten", "IMPL")
        _library.impl("empty.memory_format", _empty, "PrivateUse1")
        _library.impl("empty_strided", _empty_strided, "PrivateUse1")
        _library.impl("_copy_from", _copy_from, "PrivateUse1")
    return torch.device(NAME, 0)
