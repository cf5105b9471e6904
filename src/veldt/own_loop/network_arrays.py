"""A network's tensors as arrays, as edges carry them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veldt.errors import UsageError
from veldt.exchange.weights import check_layouts
from veldt.runtime.shared import Layout

Select = Callable[[nn.Module], Mapping[str, Tensor]]


def parameters_of(network: nn.Module) -> dict[str, Tensor]:
    """Returns the parameters that are trained, by name."""
    return {name: value for name, value in network.named_parameters() if value.requires_grad}


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Returns parameters and buffers, by name."""
    return {name: value for name, value in network.state_dict().items() if isinstance(value, Tensor)}


def layouts_of(make: Any, select: Select, what: str) -> dict[str, Layout]:
    """Returns shape and dtype of a network's tensors, by name.

    Args:
        make: the user's function that makes the network.

    Raises:
        UsageError: it makes no network, or one with tensors of a dtype that numpy lacks.
    """
    with torch.random.fork_rng(devices=()):  # what the user has seeded stays as it is
        network = make() if callable(make) and not isinstance(make, nn.Module) else None
    if not isinstance(network, nn.Module):
        got = f"is a {type(make).__name__}" if network is None else f"returns a {type(network).__name__}"
        raise UsageError(
            f"{what} needs a function without arguments that makes a torch.nn.Module, and network {got}: give the "
            "class, or a function, not the network itself"
        )
    layouts = {}
    for name, tensor in select(network).items():
        if tensor.dtype is torch.bfloat16 or tensor.is_complex():
            raise UsageError(
                f"{what} cannot carry '{name}', which is {tensor.dtype}: take float32 or float16"
            )
        layouts[name] = Layout(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
    if not layouts:
        raise UsageError(
            f"{what} has a network without parameters that are trained: there is nothing to send"
        )
    return layouts


class NetworkArrays:
    """Arrays of this process for the tensors that `select` finds in a network.

    Args:
        layouts: of these arrays, by name.
    """

    def __init__(self, layouts: Mapping[str, Layout], select: Select) -> None:
        self._layouts, self._select = layouts, select
        self.arrays = {name: np.empty(layout.shape, layout.dtype) for name, layout in layouts.items()}
        self._checked: nn.Module | None = None  # the network that was compared last

    def load(self, network: nn.Module) -> None:
        """Copies the arrays into the network."""
        tensors = self.tensors_of(network)
        with torch.no_grad():
            for name, array in self.arrays.items():
                tensors[name].copy_(torch.from_numpy(array))

    def tensors_of(self, network: nn.Module) -> Mapping[str, Tensor]:
        """Returns the network's tensors. Raises VeldtError if it is not the network that the piece was made for."""
        tensors = self._select(network)
        if self._checked is not network:
            empty = {
                name: np.empty(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
                for name, tensor in tensors.items()
            }
            check_layouts(self._layouts, empty)
            self._checked = network
        return tensors
