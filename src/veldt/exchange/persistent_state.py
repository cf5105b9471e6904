"""Memory of a role that survives its process, because the process that started the role holds it, too.

On another machine it is lost with the role; then `is_filled` is False.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import BaseContext

import numpy as np

from veldt.runtime.shared import Layout, SharedArrays

_FILLED = "is_filled"


class PersistentState:
    """Arrays by name. Picklable while a process is being started."""

    def __init__(self, layouts: Mapping[str, Layout], context: BaseContext | None) -> None:
        self._names = tuple(layouts)
        self._shared = SharedArrays({**layouts, _FILLED: Layout((1,), "bool")}, context)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: self._shared[name] for name in self._names}

    @property
    def is_filled(self) -> bool:
        """Whether an incarnation of the role has written all arrays."""
        return bool(self._shared[_FILLED][0])

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Writes all arrays."""
        for name, array in self.arrays.items():
            np.copyto(array, values[name])
        self._shared[_FILLED][0] = True
