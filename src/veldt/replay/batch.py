"""A batch of transitions in its stored form: numpy arrays, wherever they lie.

The replay buffer writes it, in memory of its own process, or in a learner's memory from another process. The learner
reads it, and gives its keys back with new priorities. On the learner's device a batch is `algorithms.transitions`
`Transitions`; `BatchConverter` in `learning.replay_batches` converts the one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from veldt.envs.spec import EnvSpec
from veldt.runtime.shared import Layout

_OBSERVATION, _NEXT_OBSERVATION = "observation/", "next_observation/"
_OF_ROWS = {
    "reward": "float32",
    "discount": "float32",
    "mass": "float64",
    "key": "int64",
    "version": "int32",
}


def batch_layouts(spec: EnvSpec, rows: int) -> dict[str, Layout]:
    """Returns the layouts of the arrays of a batch of `rows` transitions."""
    layouts = {}
    for name, field in spec.observation.items():
        shape = (*field.shape, field.stack) if field.stack > 1 else field.shape
        for which in (_OBSERVATION, _NEXT_OBSERVATION):
            layouts[which + name] = Layout((rows, *shape), field.dtype)
    layouts["action"] = Layout((rows, *spec.action.shape), spec.action.dtype)
    return layouts | {name: Layout((rows,), dtype) for name, dtype in _OF_ROWS.items()}


class ReplayBatch:
    """N transitions, or other rows that a replay buffer samples; `len` is N.

    `observation` and `next_observation` hold arrays by field (a single "" unless the space is a Dict), [N, ...], or
    [N, H, W, K] where frames are stacked. The target is reward_N + discount_N V(next); see `returns.n_step_returns`.
    `mass_N` float64 are proportional to the sampling probabilities (see `importance_weights`),
    `version_N` int32 are the policy versions that acted, and `key_N` int64 identify the transitions for
    `ReplayBuffer.update`. Every batch has mass and keys; only transitions have the rest (see `RowBuffer` for others).

    Args:
        arrays: by the names of `batch_layouts`, or of `row_buffer.row_batch_layouts`.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.mass_N, self.key_N = arrays["mass"], arrays["key"]

    @cached_property
    def observation(self) -> dict[str, np.ndarray]:
        return self._fields(_OBSERVATION)

    @cached_property
    def next_observation(self) -> dict[str, np.ndarray]:
        return self._fields(_NEXT_OBSERVATION)

    @property
    def action_N(self) -> np.ndarray:
        return self.arrays["action"]

    @property
    def reward_N(self) -> np.ndarray:
        return self.arrays["reward"]

    @property
    def discount_N(self) -> np.ndarray:
        return self.arrays["discount"]

    @property
    def version_N(self) -> np.ndarray:
        return self.arrays["version"]

    def _fields(self, which: str) -> dict[str, np.ndarray]:
        return {
            name.removeprefix(which): array for name, array in self.arrays.items() if name.startswith(which)
        }

    @classmethod
    def allocate(cls, layouts: Mapping[str, Layout]) -> ReplayBatch:
        """Returns a batch in memory of this process, with arbitrary content."""
        return cls({name: np.empty(layout.shape, layout.dtype) for name, layout in layouts.items()})

    def __len__(self) -> int:
        return len(self.key_N)

    def part(self, rows: slice) -> ReplayBatch:
        """Returns these rows, as views."""
        return ReplayBatch({name: array[rows] for name, array in self.arrays.items()})

    def copy_from(self, other: ReplayBatch) -> None:
        """Copies all arrays of a batch with as many rows."""
        for name, array in self.arrays.items():
            np.copyto(array, other.arrays[name])


def importance_weights(mass_N: np.ndarray, beta: float) -> np.ndarray:
    """Returns the importance weights for rows drawn in proportion to their mass: float32 [N], at most 1.

    A row that is drawn with probability P among S has the weight (S P)^-β, divided by the largest weight of the batch
    (Schaul et al. 2016, section 3.4). So S and the sum of all masses cancel out, and a batch may come from several
    shards.
    """
    return ((mass_N / mass_N.min()) ** -beta).astype(np.float32)
