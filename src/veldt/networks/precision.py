"""The torso's precision (fp32 or bf16), and the compiled forward pass, on CUDA devices also as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from veldt.errors import first_line
from veldt.networks.flat import FlatParameters

# What an algorithm's `network` returns: torso and heads. Called with observations alone, it must return something.
Network = nn.Module
# A network's forward pass, possibly compiled. What it returns is agreed between the network and its algorithm.
Forward = Callable[..., Any]


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

    Args:
        cuda_graphs: whether to capture it, with its backward pass, in CUDA graphs, one for each shape of its inputs;
            then only one thread may call it.
    """

    def __init__(
        self, network: nn.Module, on_fallback: Callable[[str], None], *, cuda_graphs: bool = False
    ) -> None:
        self._network, self._on_fallback, self._cuda_graphs = network, on_fallback, cuda_graphs
        # Sizes that vary would otherwise become variables of one graph.
        options: dict[str, Any] = {"mode": "reduce-overhead", "dynamic": False} if cuda_graphs else {}
        self._forward: Callable[..., Any] = torch.compile(network, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self._forward
        try:
            result = forward(*args, **kwargs)
            if self._cuda_graphs:
                # The next call writes to the same memory, and a loss may use the results of several calls.
                result = tree_map_only(Tensor, Tensor.clone, result)
        except Exception as error:
            if forward is self._network:
                raise
            self._on_fallback(f"torch.compile failed ({first_line(error)[:200]}): continuing without it")
            self._forward = self._network
            result = self._network(*args, **kwargs)
        return result
