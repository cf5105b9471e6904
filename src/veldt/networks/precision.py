"""The torso's precision (fp32 or bf16), and the compiled forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from veldt.networks.flat import FlatParameters

# What an algorithm's `network` returns: torso and heads. Called with observations alone, it must return something.
Network = nn.Module


def low_precision_parts(network: Network) -> list[nn.Module]:
    """The modules that may compute in bf16: those that the network's method of this name returns, else none."""
    method = getattr(network, "low_precision_parts", None)
    return [] if method is None else method()


def apply_precision(network: Network, precision: str, device: torch.device) -> FlatParameters:
    """Moves `network` to `device` with flat fp32 parameters; "bf16" adds the bf16 copy for the torso."""
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return FlatParameters(network, low_precision_parts(network) if precision == "bf16" else ())


class CompiledForward:
    """A network's forward pass through torch.compile. At the first failure it falls back to the eager network.

    Several threads may call it, and several calls may fail at the same time.
    """

    def __init__(self, network: nn.Module, on_fallback: Callable[[str], None]) -> None:
        self._network, self._on_fallback = network, on_fallback
        self._forward: Callable[..., Any] = torch.compile(network)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self._forward
        try:
            result = forward(*args, **kwargs)
        except Exception as error:
            if forward is self._network:
                raise
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            self._on_fallback(f"torch.compile failed ({first[:200]}): continuing without it")
            self._forward = self._network
            result = self._network(*args, **kwargs)
        return result
