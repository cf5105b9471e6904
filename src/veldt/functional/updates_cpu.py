"""The CPU kernels of the update rules, in a module of their own so that numba is loaded only for large networks.

A kernel passes through memory once, where torch passes once per operation; it makes the bf16 copy, if there is one,
while the parameters are in the cache.
"""

from __future__ import annotations

import numpy as np

from veldt.compiled import njit

_BLOCK = 2048  # parameters; with their accumulators they fill a quarter of the L1 cache


# The compiler vectorises only with "numpy" division (no exception on zero), and only loops over whole slices, in
# functions where no other argument is a view of the same memory.
_kernel = njit(fastmath=True, error_model="numpy")


@_kernel
def divide_by_root(parameters_P, gradient_P, sum_P, bits_P, bf16_R, keep, add, inside, outside, rate):  # type: ignore[no-untyped-def]
    """One update by `g / (sqrt(s + inside) + outside)`; the sum of squares s becomes `keep s + add g²`.

    Arrays are float32 [P], numbers float32; `bits_P` uint32 is a view of the parameters' memory, and `bf16_R`
    uint16 one of a bfloat16 copy of the first R parameters.
    """
    for first in range(0, len(parameters_P), _BLOCK):
        end = first + _BLOCK
        block = parameters_P[first:end], gradient_P[first:end], sum_P[first:end]
        _divide_by_root(block[0], block[1], block[2], keep, add, inside, outside, rate)
        _round(bits_P[first:end], bf16_R[first:end])


@_kernel
def adam(parameters_P, gradient_P, mean_P, square_P, bits_P, bf16_R, beta_1, beta_2, epsilon, step, root):  # type: ignore[no-untyped-def]
    """One update by `step m / (root sqrt(v) + ε)`; `step` and `root` include the bias corrections.

    See `divide_by_root`.
    """
    for first in range(0, len(parameters_P), _BLOCK):
        end = first + _BLOCK
        block = parameters_P[first:end], gradient_P[first:end], mean_P[first:end], square_P[first:end]
        _adam(block[0], block[1], block[2], block[3], beta_1, beta_2, epsilon, step, root)
        _round(bits_P[first:end], bf16_R[first:end])


@_kernel
def _divide_by_root(parameters_P, gradient_P, sum_P, keep, add, inside, outside, rate):  # type: ignore[no-untyped-def]
    for i in range(len(parameters_P)):
        gradient = gradient_P[i]
        total = sum_P[i] * keep + gradient * gradient * add
        sum_P[i] = total
        parameters_P[i] -= rate * gradient / (np.sqrt(total + inside) + outside)


@_kernel
def _adam(parameters_P, gradient_P, mean_P, square_P, beta_1, beta_2, epsilon, step, root):  # type: ignore[no-untyped-def]
    fresh_1, fresh_2 = np.float32(1.0) - beta_1, np.float32(1.0) - beta_2
    for i in range(len(parameters_P)):
        gradient = gradient_P[i]
        mean = mean_P[i] * beta_1 + gradient * fresh_1
        square = square_P[i] * beta_2 + gradient * gradient * fresh_2
        mean_P[i], square_P[i] = mean, square
        parameters_P[i] -= step * mean / (np.sqrt(square) * root + epsilon)


@_kernel
def _round(bits_R, bf16_R):  # type: ignore[no-untyped-def]
    """float32 to bfloat16, rounded to the nearest, ties to even."""
    for i in range(len(bf16_R)):
        bits = bits_R[i]
        bf16_R[i] = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
