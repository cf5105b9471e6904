"""All parameters of a network as one fp32 vector.

With one vector, the update rule, the norm and the transport of weights or gradients need a few operations instead of
one per tensor. In bf16, the low-precision modules compute with a bf16 copy of their slice of the vector. Updates go to
the fp32 parameters, so that steps smaller than bf16's resolution still add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class FlatParameters:
    """Turns the parameters of `network` (already on its device) into views of the vectors of this object.

    `fp32_params` float32 [P] and `gradient` float32 [P] are the vectors; `bf16_copy` bfloat16 [R] is the bf16 copy of
    the first R parameters, for the low-precision modules. Convolution weights keep the channels-last layout.
    """

    def __init__(self, network: nn.Module, low_precision: Sequence[nn.Module] = ()) -> None:
        low = {id(p) for part in low_precision for p in part.parameters()}
        named = list(network.named_parameters())
        named.sort(key=lambda item: id(item[1]) not in low)  # stable: the low-precision slice comes first
        self.names = [name for name, _ in named]
        self._buffers = dict(network.named_buffers())
        self._parameters = [parameter for _, parameter in named]
        low_count = sum(p.numel() for p in self._parameters if id(p) in low)
        device = self._parameters[0].device
        self.sizes = [parameter.numel() for parameter in self._parameters]
        total = sum(self.sizes)
        self.fp32_params = torch.zeros(total, device=device)
        self.gradient = torch.zeros(total, device=device)
        self.bf16_copy = torch.zeros(low_count, device=device, dtype=torch.bfloat16)
        self._host: Tensor | None = None
        self._fp32_parameters, self._gradients = [], []
        offset = 0
        for parameter in self._parameters:
            end = offset + parameter.numel()
            self._fp32_parameters.append(_view(self.fp32_params[offset:end], parameter))
            self._gradients.append(_view(self.gradient[offset:end], parameter))
            self._fp32_parameters[-1].copy_(parameter.data)
            low_slice = self.bf16_copy[offset:end] if id(parameter) in low else None
            parameter.data = self._fp32_parameters[-1] if low_slice is None else _view(low_slice, parameter)
            offset = end
        trainable = [i for i, parameter in enumerate(self._parameters) if parameter.requires_grad]
        self._trainable = [self._parameters[i] for i in trainable]
        self._trainable_gradients = [self._gradients[i] for i in trainable]
        self.refresh()

    def refresh(self) -> None:
        """Rounds the fp32 parameters into the bf16 copy; call it whenever `fp32_params` has changed."""
        self.bf16_copy.copy_(self.fp32_params[: len(self.bf16_copy)])

    def backward(self, loss: Tensor) -> None:
        """Writes the gradient of `loss` into `gradient`: 0 for frozen parameters and those without influence on it."""
        if len(self._trainable) < len(self._parameters):
            self.gradient.zero_()
        gradients = torch.autograd.grad(loss, self._trainable, allow_unused=True, materialize_grads=True)
        torch._foreach_copy_(self._trainable_gradients, list(gradients))

    def backward_by_group(self, losses: Mapping[str, Tensor], members: Mapping[str, Sequence[int]]) -> None:
        """Writes the gradient of each loss with respect to its group alone into `gradient`: 0 for other parameters.

        Args:
            losses: a loss for each group that moves.
            members: for each group the indices of its parameters in `names`.
        """
        if len(losses) < len(members) or len(self._trainable) < len(self._parameters):
            self.gradient.zero_()
        operations = [_operations(loss) if len(losses) > 1 else set() for loss in losses.values()]
        for number, (name, loss) in enumerate(losses.items(), start=1):
            own = [i for i in members[name] if self._parameters[i].requires_grad]
            if not own:
                continue
            gradients = torch.autograd.grad(
                loss,
                [self._parameters[i] for i in own],
                # Only if a later loss shares operations with this one: a compiled backward pass refuses retain_graph.
                retain_graph=not operations[number - 1].isdisjoint(set().union(*operations[number:])),
                allow_unused=True,
                materialize_grads=True,
            )
            torch._foreach_copy_([self._gradients[i] for i in own], list(gradients))

    def slices(self, prefix: str) -> list[slice]:
        """The parts of the vector whose parameters' names begin with `prefix`."""
        found: list[slice] = []
        first = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            if name.startswith(prefix):
                start = found.pop().start if found and found[-1].stop == first else first
                found.append(slice(start, first + size))
            first += size
        return found

    def share(self, other: FlatParameters, names: Collection[str]) -> None:
        """Makes the forward pass use another network's parameters in place of those with these names."""
        for name, own, theirs in zip(self.names, self._parameters, other._parameters, strict=True):
            if name in names:
                own.data = theirs.data

    def tensors(self) -> dict[str, Tensor]:
        """The fp32 parameters by name (views), and the network's buffers (for example normalisation statistics)."""
        return dict(zip(self.names, self._fp32_parameters, strict=True)) | self._buffers

    def arrays(self) -> dict[str, np.ndarray]:
        """`tensors` as numpy arrays: views, on the CPU of the vector itself, else of a copy that each call renews."""
        if self.fp32_params.device.type == "cpu":
            return {name: tensor.numpy() for name, tensor in self.tensors().items()}
        if self._host is None:
            self._host = torch.empty(self.fp32_params.shape, pin_memory=self.fp32_params.is_cuda)
        self._host.copy_(self.fp32_params)
        copies = self.split(self._host) | {name: buffer.cpu() for name, buffer in self._buffers.items()}
        return {name: tensor.numpy() for name, tensor in copies.items()}

    def load(self, tensors: Mapping[str, Tensor], names: Collection[str] | None = None) -> None:
        """Copies values by name: of these `names` and the buffers, or of all.

        Raises KeyError or RuntimeError if names or shapes differ. Values that belong to nothing here are an error where
        all are copied: they are of another network, which happens to contain this one's names.
        """
        if names is None and (more := sorted(tensors.keys() - self.tensors().keys())):
            raise RuntimeError(f"the network has no parameter {more[0]}")
        for name, parameter in self.tensors().items():
            if names is not None and name not in names and name not in self._buffers:
                continue
            value = tensors[name]
            if value.shape != parameter.shape:
                raise RuntimeError(
                    f"{name} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}"
                )
            parameter.copy_(value)
        self.refresh()

    def polyak_update(self, other: FlatParameters, rate: float, parts: Sequence[slice]) -> None:
        """Polyak update: moves these parts of the vector towards `other` by the fraction `rate`; buffers are copied."""
        for part in parts:
            if rate == 1.0:
                self.fp32_params[part].copy_(other.fp32_params[part])
            else:
                self.fp32_params[part].lerp_(other.fp32_params[part], rate)
        for name, buffer in self._buffers.items():
            buffer.copy_(other._buffers[name])
        self.refresh()

    def buffers(self) -> list[Tensor]:
        """Returns the network's buffers themselves."""
        return list(self._buffers.values())

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """Splits a vector of the same length (for example an accumulator) into views by parameter name."""
        pieces = zip(self.names, vector.split(self.sizes), self._parameters, strict=True)
        return {name: _view(piece, parameter) for name, piece, parameter in pieces}


def _operations(loss: Tensor) -> set[Any]:
    """Returns the operations that a loss was computed by, as autograd's nodes: not the parameters in which they end."""
    found: set[Any] = set()
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node.next_functions and node not in found:
            found.add(node)
            waiting += [before for before, _ in node.next_functions]
    return found


def _view(flat: Tensor, like: Tensor) -> Tensor:
    """`flat` in the shape of `like`; channels-last for convolution weights."""
    if like.ndim != 4:
        return flat.view(like.shape)
    out, inputs, height, width = like.shape
    return flat.view(out, height, width, inputs).permute(0, 3, 1, 2)
