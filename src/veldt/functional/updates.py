"""Update rules on one flat vector of parameters.

A rule is a frozen set of numbers; its state is a dictionary of tensors that the caller keeps, stores and restores. All
operate in place, without a synchronisation with the device, and on any slice of the vector alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

# From this many parameters on the CPU, one compiled pass is worth loading the compiler: it is 4 times as fast as the
# same in torch operations, which go through memory 8 times.
_FUSED = 100_000


class UpdateRule(Protocol):
    squares: ClassVar[str]
    """Which part of the state is a sum of squares, and so never below 0."""

    @property
    def decay_of(self) -> Mapping[str, float]:
        """By what each part of the state is multiplied in an update, before what the gradient adds to it."""

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        """The state before the first update: accumulators like the parameters, and scalars that count updates."""

    def apply(
        self,
        parameters_P: Tensor,
        gradient_P: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        rounded_R: Tensor,
    ) -> None:
        """One update in place; `gradient_P` may be overwritten.

        `rounded_R` bfloat16 becomes a copy of the first R parameters (R may be 0).
        """


@dataclass(frozen=True)
class RMSProp:
    """RMSProp without momentum, not centred.

    ε stands inside the square root, `g / sqrt(s + ε)`, in A3C, TensorFlow and Lasagne, and outside,
    `g / (sqrt(s) + ε)`, in PyTorch. `initial` is the accumulator's start: 0 in most, 1 in TensorFlow (which makes the
    first steps small).
    """

    decay: float = 0.99
    epsilon: float = 1e-5
    epsilon_inside: bool = True
    initial: float = 0.0

    squares: ClassVar[str] = "square"

    @property
    def decay_of(self) -> Mapping[str, float]:
        return {"square": self.decay}

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        return {"square": torch.full_like(parameters_P, self.initial)}

    def apply(
        self,
        parameters_P: Tensor,
        gradient_P: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        rounded_R: Tensor,
    ) -> None:
        weights = self.decay, 1.0 - self.decay
        epsilons = (self.epsilon, 0.0) if self.epsilon_inside else (0.0, self.epsilon)
        _divide_by_root(
            parameters_P, gradient_P, state["square"], *weights, *epsilons, learning_rate, rounded_R
        )


@dataclass(frozen=True)
class AdaGrad:
    """AdaGrad (Duchi et al. 2011): each parameter's steps shrink with the root of all its squared gradients' sum.

    ε stands outside the square root, as in PyTorch, or inside; see `RMSProp`. `initial` is where the sum begins.
    """

    epsilon: float = 1e-10
    epsilon_inside: bool = False
    initial: float = 0.0

    squares: ClassVar[str] = "sum"

    @property
    def decay_of(self) -> Mapping[str, float]:
        return {"sum": 1.0}

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        return {"sum": torch.full_like(parameters_P, self.initial)}

    def apply(
        self,
        parameters_P: Tensor,
        gradient_P: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        rounded_R: Tensor,
    ) -> None:
        epsilons = (self.epsilon, 0.0) if self.epsilon_inside else (0.0, self.epsilon)
        _divide_by_root(parameters_P, gradient_P, state["sum"], 1.0, 1.0, *epsilons, learning_rate, rounded_R)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1), with ε outside the square root as there."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-5

    squares: ClassVar[str] = "square"

    @property
    def decay_of(self) -> Mapping[str, float]:
        return {"mean": self.beta_1, "square": self.beta_2, "count": 1.0}

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        return {
            "mean": torch.zeros_like(parameters_P),
            "square": torch.zeros_like(parameters_P),
            "count": torch.zeros((), device=parameters_P.device),
        }

    def apply(
        self,
        parameters_P: Tensor,
        gradient_P: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        rounded_R: Tensor,
    ) -> None:
        # Torch has this rule in one pass too, on several threads; one thread is quicker with the rounding in it.
        if _is_fused(parameters_P) and torch.get_num_threads() == 1:
            from veldt.functional.updates_cpu import adam as fused

            count = float(state["count"].add_(1.0))
            step = learning_rate / (1.0 - self.beta_1**count)
            root = 1.0 / math.sqrt(1.0 - self.beta_2**count)
            numbers = map(np.float32, (self.beta_1, self.beta_2, self.epsilon, step, root))
            arrays = [tensor.numpy() for tensor in (parameters_P, gradient_P, state["mean"], state["square"])]
            fused(*(*arrays, *_bits(parameters_P, rounded_R), *numbers))
            return
        adam(
            [parameters_P],
            [gradient_P],
            [state["mean"]],
            [state["square"]],
            [],
            [state["count"]],
            fused=True,
            amsgrad=False,
            beta1=self.beta_1,
            beta2=self.beta_2,
            lr=learning_rate,
            weight_decay=0.0,
            eps=self.epsilon,
            maximize=False,
        )
        rounded_R.copy_(parameters_P[: len(rounded_R)])


def _divide_by_root(
    parameters_P: Tensor,
    gradient_P: Tensor,
    sum_P: Tensor,
    keep: float,
    add: float,
    inside: float,
    outside: float,
    learning_rate: float,
    rounded_R: Tensor,
) -> None:
    """One update by `g / (sqrt(s + inside) + outside)`, of a sum of squares that becomes `keep` s + `add` g²."""
    if _is_fused(parameters_P):
        from veldt.functional.updates_cpu import divide_by_root

        numbers = map(np.float32, (keep, add, inside, outside, learning_rate))
        arrays = parameters_P.numpy(), gradient_P.numpy(), sum_P.numpy()
        divide_by_root(*arrays, *_bits(parameters_P, rounded_R), *numbers)
        return
    sum_P.mul_(keep).addcmul_(gradient_P, gradient_P, value=add)
    if inside:
        parameters_P.sub_(gradient_P.mul_(torch.rsqrt(sum_P + inside)), alpha=learning_rate)
    else:
        parameters_P.addcdiv_(gradient_P, sum_P.sqrt().add_(outside), value=-learning_rate)
    rounded_R.copy_(parameters_P[: len(rounded_R)])


def _is_fused(parameters_P: Tensor) -> bool:
    return parameters_P.device.type == "cpu" and len(parameters_P) >= _FUSED


def _bits(parameters_P: Tensor, rounded_R: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The memory of parameters and of their rounded copy as whole numbers, for which numpy has types."""
    return parameters_P.numpy().view(np.uint32), rounded_R.view(torch.int16).numpy().view(np.uint16)


def clip_by_norm(gradient_P: Tensor, limit: float) -> Tensor:
    """Scales the gradient in place so that its norm is at most `limit` (0: no limit). Returns the norm before."""
    norm = torch.linalg.vector_norm(gradient_P)
    # A look at the norm waits for nothing on the CPU, and mostly saves a pass through memory.
    if limit > 0 and (norm.device.type != "cpu" or norm > limit):
        gradient_P.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
    return norm
