"""The CPU's kernel of RMSProp, apart so that numba is loaded only for networks large enough to gain."""

from __future__ import annotations

import numba
import numpy as np


# "numpy" division (no exception on zero) is what lets the compiler vectorise.
@numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def rmsprop(parameters_P, gradient_P, square_P, decay, inside, outside, learning_rate):  # type: ignore[no-untyped-def]
    """One update, `g / (sqrt(s + inside) + outside)`; arrays float32 [P], numbers float32."""
    fresh = np.float32(1.0) - decay
    for i in range(len(parameters_P)):
        gradient = gradient_P[i]
        square = square_P[i] * decay + gradient * gradient * fresh
        square_P[i] = square
        parameters_P[i] -= learning_rate * gradient / (np.sqrt(square + inside) + outside)
