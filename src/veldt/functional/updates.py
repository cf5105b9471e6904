"""Update rules on one flat vector of parameters.

A rule is a frozen set of numbers. Its state is a dictionary of tensors that the caller keeps, stores and restores. All
rules work in place, without synchronising with the device, and on any slice of the vector.
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

# From this number of parameters on the CPU, the compiled kernel pays for its import: it passes through memory once and
# is 4 times as fast as the same torch operations, which pass through it 8 times.
_FUSED = 100_000


class UpdateRule(Protocol):
    """See the module's docstring. Parameters, gradients and accumulators are float32 [P]."""

    squares: ClassVar[str]
    """The entry of the state that is a sum of squares, and so is never below 0."""

    @property
    def decay_of(self) -> Mapping[str, float]:
        """The factor on each entry of the state in an update, before the gradient's term is added."""

    def state(self, parameters_P: Tensor) -> dict[str, Tensor]:
        """Returns the initial state: accumulators shaped like the parameters, and scalar counters of updates."""

    def apply(
        self,
        parameters_P: Tensor,
        gradient_P: Tensor,
        state: dict[str, Tensor],
        learning_rate: float,
        bf16_R: Tensor,
    ) -> None:
        """Makes one update in place; it may overwrite `gradient_P`.

        `bf16_R`, bfloat16, receives a copy of the first R parameters (R may be 0).
        """


@dataclass(frozen=True)
class RMSProp:
    """RMSProp without momentum, not centred.

    ε is inside the square root, `g / sqrt(s + ε)`, in A3C, TensorFlow and Lasagne, and outside, `g / (sqrt(s) + ε)`, in
    PyTorch. `initial` is the accumulator's initial value: 0 in most libraries, 1 in TensorFlow (which makes the first
    steps small).
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
        bf16_R: Tensor,
    ) -> None:
        weights = self.decay, 1.0 - self.decay
        epsilons = (self.epsilon, 0.0) if self.epsilon_inside else (0.0, self.epsilon)
        _divide_by_root(parameters_P, gradient_P, state["square"], *weights, *epsilons, learning_rate, bf16_R)


@dataclass(frozen=True)
class AdaGrad:
    """AdaGrad (Duchi et al. 2011): a parameter's step is divided by the root of the sum of all its squared gradients.

    ε is outside the square root, as in PyTorch, or inside; see `RMSProp`. `initial` is the sum's initial value.
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
        bf16_R: Tensor,
    ) -> None:
        epsilons = (self.epsilon, 0.0) if self.epsilon_inside else (0.0, self.epsilon)
        _divide_by_root(parameters_P, gradient_P, state["sum"], 1.0, 1.0, *epsilons, learning_rate, bf16_R)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015), with ε outside the square root as in the paper.

    ε is added to the root of the corrected second moment, `m̂ / (sqrt(v̂) + ε)`, in their algorithm 1 and in PyTorch.
    With `epsilon_hat` it is added to the root of the moment itself, `a m / (sqrt(v) + ε)` where
    `a = sqrt(1 - β₂ᵗ) / (1 - β₁ᵗ)`, as at the end of their section 2, in TensorFlow, and in appendix B of Stooke &
    Abbeel. That equals the first form with `ε / sqrt(1 - β₂ᵗ)`: if β₂ is 0.999, with 32 ε in the first update and
    1.26 ε in the thousandth.
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-5
    epsilon_hat: bool = False

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
        bf16_R: Tensor,
    ) -> None:
        # Torch also has a fused Adam, on several threads; on one thread, the kernel that includes rounding is faster.
        if _is_fused(parameters_P) and torch.get_num_threads() == 1:
            from veldt.functional.updates_cpu import adam as fused

            count = float(state["count"].add_(1.0))
            step = learning_rate / (1.0 - self.beta_1**count)
            root = 1.0 / math.sqrt(1.0 - self.beta_2**count)
            epsilon = self.epsilon * root if self.epsilon_hat else self.epsilon
            numbers = map(np.float32, (self.beta_1, self.beta_2, epsilon, step, root))
            arrays = [tensor.numpy() for tensor in (parameters_P, gradient_P, state["mean"], state["square"])]
            fused(*(*arrays, *_bits(parameters_P, bf16_R), *numbers))
            return
        if self.epsilon_hat:
            self._apply_with_epsilon_hat(parameters_P, gradient_P, state, learning_rate)
            bf16_R.copy_(parameters_P[: len(bf16_R)])
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
        bf16_R.copy_(parameters_P[: len(bf16_R)])

    def _apply_with_epsilon_hat(
        self, parameters_P: Tensor, gradient_P: Tensor, state: dict[str, Tensor], learning_rate: float
    ) -> None:
        """Torch's Adam takes ε as a number, and the count may be on a device, where reading it would wait for that."""
        count = state["count"].add_(1.0).double()
        rate = learning_rate * (1.0 - self.beta_2**count).sqrt() / (1.0 - self.beta_1**count)
        mean_P = state["mean"].lerp_(gradient_P, 1.0 - self.beta_1)
        square_P = state["square"].mul_(self.beta_2).addcmul_(gradient_P, gradient_P, value=1.0 - self.beta_2)
        parameters_P.sub_(rate * mean_P / square_P.sqrt().add_(self.epsilon))


def _divide_by_root(
    parameters_P: Tensor,
    gradient_P: Tensor,
    sum_P: Tensor,
    keep: float,
    add: float,
    inside: float,
    outside: float,
    learning_rate: float,
    bf16_R: Tensor,
) -> None:
    """One update by `g / (sqrt(s + inside) + outside)`; the sum of squares s becomes `keep` s + `add` g²."""
    if _is_fused(parameters_P):
        from veldt.functional.updates_cpu import divide_by_root

        numbers = map(np.float32, (keep, add, inside, outside, learning_rate))
        arrays = parameters_P.numpy(), gradient_P.numpy(), sum_P.numpy()
        divide_by_root(*arrays, *_bits(parameters_P, bf16_R), *numbers)
        return
    sum_P.mul_(keep).addcmul_(gradient_P, gradient_P, value=add)
    if inside:
        parameters_P.sub_(gradient_P.mul_(torch.rsqrt(sum_P + inside)), alpha=learning_rate)
    else:
        parameters_P.addcdiv_(gradient_P, sum_P.sqrt().add_(outside), value=-learning_rate)
    bf16_R.copy_(parameters_P[: len(bf16_R)])


def _is_fused(parameters_P: Tensor) -> bool:
    return parameters_P.device.type == "cpu" and len(parameters_P) >= _FUSED


def _bits(parameters_P: Tensor, bf16_R: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The bits of the parameters and of their bf16 copy as unsigned integers (numpy has no bfloat16)."""
    return parameters_P.numpy().view(np.uint32), bf16_R.view(torch.int16).numpy().view(np.uint16)


def clip_by_norm(gradient_P: Tensor, limit: float) -> Tensor:
    """Scales the gradient in place to a norm of at most `limit` (0: no limit). Returns the norm before scaling."""
    norm = torch.linalg.vector_norm(gradient_P)
    # On the CPU, reading the norm needs no synchronisation, and mostly saves a pass through memory.
    if limit > 0 and (norm.device.type != "cpu" or norm > limit):
        gradient_P.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
    return norm
