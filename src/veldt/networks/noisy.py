"""Noisy layers: learned exploration (Fortunato et al. 2018)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NoisyLinear(nn.Module):
    """A fully connected layer with factorised Gaussian noise on its weights (Fortunato et al. 2018, section 3b).

        y = (μ_W + σ_W ∘ f(ε_out) f(ε_in)ᵀ) x + μ_b + σ_b ∘ f(ε_out),   f(x) = sign(x) √|x|

    The noise is an argument. The layer computes μ_W x + f(ε_out) ∘ (σ_W (f(ε_in) ∘ x)) and never builds the noisy
    matrix, so each row can have its own noise at the cost of a second matrix product.

    Args:
        inputs, outputs: number of input and output features.
        sigma: initial σ, times √inputs.

    `noise_width` is the number of noise values per row.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float = 0.5) -> None:
        super().__init__()
        bound, deviation = 1.0 / math.sqrt(inputs), sigma / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), deviation))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), deviation))
        self.inputs, self.noise_width = inputs, inputs + outputs

    def forward(self, x_NI: Tensor, noise_NK: Tensor | None = None) -> Tensor:
        """Maps [N, inputs] in the layer's precision to [N, outputs].

        Args:
            noise_NK: standard normals, [N, inputs + outputs], or [1, inputs + outputs] for the same noise in all rows;
                None uses the mean weights.
        """
        y_NO = F.linear(x_NI, self.weight, self.bias)
        if noise_NK is None:
            return y_NO
        scaled_NK = (noise_NK.sign() * noise_NK.abs().sqrt()).to(x_NI.dtype)
        in_NI, out_NO = scaled_NK[:, : self.inputs], scaled_NK[:, self.inputs :]
        return y_NO + out_NO * F.linear(x_NI * in_NI, self.weight_sigma, self.bias_sigma)
