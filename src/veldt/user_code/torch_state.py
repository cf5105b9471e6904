"""Keeps out of training what users' environments and modules set in torch, such as float64 for their physics.

torch is not imported here: env processes may do without it.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any


class _UsersTorch(threading.local):
    """Gradients, default type and default device: within `with` as user code last set them in this thread, else usual.

    What user code does to the number of threads is undone after `with`. At every step of an environment, `enter` and
    `leave` are called instead, which take half a microsecond: `leave` does not look at threads.
    """

    _depth = 0
    # Whether there are gradients, and the default type, outside and within; None: the usual.
    _outside: tuple[bool, Any] | None = None
    _inside: tuple[bool, Any] | None = None
    _device: Any = None  # within, if it is not the one outside, which is the CPU
    _threads = 0

    def enter(self) -> None:
        self._depth += 1
        if self._depth > 1 or (torch := sys.modules.get("torch")) is None:
            return
        self._outside = torch.is_grad_enabled(), torch.get_default_dtype()
        if self._inside is not None:
            _set(torch, *self._inside)
        if self._device is not None:
            torch.set_default_device(self._device)

    def leave(self) -> None:
        self._depth -= 1
        if self._depth > 0 or (torch := sys.modules.get("torch")) is None:
            return
        outside = self._outside or (True, torch.float32)
        now = torch.is_grad_enabled(), torch.get_default_dtype()
        self._inside = None if now == outside else now
        self._device = _default_device(torch)
        if now != outside:
            _set(torch, *outside)
        if self._device is not None:
            torch.set_default_device(None)

    def __enter__(self) -> None:
        self.enter()
        if self._depth == 1 and (torch := sys.modules.get("torch")) is not None:
            self._threads = torch.get_num_threads()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._depth == 1 and (torch := sys.modules.get("torch")) is not None:
            if self._threads and torch.get_num_threads() != self._threads:
                torch.set_num_threads(self._threads)
            self._threads = 0
        self.leave()

    def take_from_imports(self) -> None:
        """Takes what is set in this process, which has so far only imported modules, for the user's."""
        self._depth, self._outside, self._threads = 1, None, 0
        self.__exit__(None, None, None)


def _default_device(torch: Any) -> Any:
    """Returns torch's default device in this thread; None if it is the CPU."""
    # A default device is one of these modes. torch takes seven microseconds to look for it among them.
    if torch._C._len_torch_function_stack() == 0:
        return None
    device = torch.get_default_device()
    return None if device == torch.device("cpu") else device


def _set(torch: Any, gradients: bool, default_type: Any) -> None:
    torch.set_grad_enabled(gradients)
    torch.set_default_dtype(default_type)


users_torch = _UsersTorch()
