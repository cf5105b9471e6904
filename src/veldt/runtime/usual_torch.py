"""Keeps apart what a program (such as a notebook) and veldt set in torch: neither changes the other's computation.

A default type or device, or an `inference_mode` or `autocast` around the call, changes what torch computes in this
process, but not in env processes and roles: results would depend on where the parts of a run are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from veldt.errors import UsageError

_CPU = torch.device("cpu")
_random_numbers = threading.RLock()  # torch's generator on the CPU is the whole program's


class _DefaultType:
    """Sets torch's default type, which all threads share, to fp32; the last of overlapping calls to end restores it."""

    def __init__(self) -> None:
        self._lock, self._calls = threading.Lock(), 0
        self._before: torch.dtype | None = None  # None: it need not be restored

    def __enter__(self) -> None:
        with self._lock:
            self._calls += 1
            if (default_type := torch.get_default_dtype()) != torch.float32:
                self._before = default_type
                torch.set_default_dtype(torch.float32)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0 and self._before is not None:
                torch.set_default_dtype(self._before)
                self._before = None


_default_type = _DefaultType()


@contextlib.contextmanager
def usual_torch() -> Iterator[None]:
    """Computes in fp32 on the CPU by default, with gradients and without autocast, as a fresh process does.

    Afterwards the default type and the number of threads are as they were before; the rest is undone as well.
    """
    threads = torch.get_num_threads()
    try:
        with contextlib.ExitStack() as within:
            within.enter_context(_default_type)
            # Each of these costs time, here or in every call of torch: it is entered only where it changes something.
            if torch.get_default_device() != _CPU:
                within.enter_context(_CPU)
            if torch.is_inference_mode_enabled():
                within.enter_context(torch.inference_mode(False))
            if not torch.is_grad_enabled():
                within.enter_context(torch.enable_grad())
            for kind in ("cpu", "cuda"):
                if torch.is_autocast_enabled(kind):
                    within.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def refuse_modes_left_on() -> None:
    """Raises UsageError where code that was called within `usual_torch` has not ended one of torch's modes: the policy
    would act and learn in it. A microsecond."""
    left = ["inference_mode()"] if torch.is_inference_mode_enabled() else []
    left += [f"autocast({kind!r})" for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    if left:
        raise UsageError(
            f"torch.{left[0]} is on in the process that trains, where an environment or a callback has begun it and "
            f"not ended it: use it as `with torch.{left[0]}:` within one step, or take --env-backend workers"
        )


@contextlib.contextmanager
def kept_random_numbers() -> Iterator[None]:
    """Leaves torch's random numbers on the CPU as they were, and draws them in one thread of the program at a time."""
    with _random_numbers, torch.random.fork_rng(devices=[]):
        yield
