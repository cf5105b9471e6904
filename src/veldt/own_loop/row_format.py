"""The rows of a `DistributedBuffer`: the user's arrays as they are stored, and the check of what is added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.errors import UsageError
from veldt.exchange.slots import Arrays
from veldt.runtime.shared import Layout

# What is stored besides the user's arrays: the priority of a row, and the steps of an episode.
PRIORITY, LENGTH = "priority", "length"
_FIELD = "row/"  # before the names of the user's own arrays


@dataclass(frozen=True)
class RowFormat:
    """The arrays of a row as the user names them, shape and dtype of each; of an episode, those of one step."""

    fields: Mapping[str, Layout]
    episode_steps: int

    @classmethod
    def of(cls, row: Mapping[str, tuple[tuple[int, ...], str]], episode_steps: int) -> RowFormat:
        """Returns the format of a row of these shapes and dtypes. Raises UsageError where one is not understood."""
        fields = {}
        for name, described in row.items():
            try:
                shape, dtype = described
                fields[name] = Layout(tuple(int(size) for size in shape), np.dtype(dtype).name)
            except (TypeError, ValueError):
                raise UsageError(
                    f"row['{name}'] of a DistributedBuffer is {described!r}: give shape and dtype, such as "
                    '((4,), "float32"), or ((), "int64") for a number'
                ) from None
            if name == PRIORITY or np.dtype(dtype).kind not in "biuf":
                raise UsageError(
                    f"row['{name}'] of a DistributedBuffer is {described!r}: give it a dtype of numbers or bool, "
                    f"and any name but '{PRIORITY}'"
                )
        if not fields:
            raise UsageError("row of a DistributedBuffer is empty: name the arrays of a transition")
        return cls(fields, episode_steps)

    @property
    def layouts(self) -> dict[str, Layout]:
        """The arrays of a row as they are stored: those of an episode with all its steps, and its length."""
        if not self.episode_steps:
            return {_FIELD + name: layout for name, layout in self.fields.items()}
        padded = {
            _FIELD + name: Layout((self.episode_steps, *layout.shape), layout.dtype)
            for name, layout in self.fields.items()
        }
        return padded | {LENGTH: Layout((), "int64")}

    def write(self, row: Mapping[str, Any], into: Arrays, at: int) -> None:
        """Writes a row to position `at`. Raises UsageError, before anything is written, for one of another format."""
        if row.keys() != self.fields.keys():
            raise UsageError(
                f"a row with {_listed(row)} was added, and the buffer's has {_listed(self.fields)}: give each of "
                "these by its name"
            )
        arrays = {name: as_array(row[name]) for name in self.fields}
        steps = self._steps(arrays) if self.episode_steps else 0
        for name, layout in self.fields.items():
            array, shape = arrays[name], (*((steps,) if self.episode_steps else ()), *layout.shape)
            if array.shape != shape or not _is_of_kind(array.dtype, layout.dtype):
                raise UsageError(
                    f"'{name}' of a row is {array.dtype} {list(array.shape)}, and the buffer's is {layout.dtype} "
                    f"{list(shape)}{' for an episode of so many steps' if self.episode_steps else ''}: convert it, or "
                    "name another shape and dtype in the buffer's row"
                )
            _check_range(name, array, layout.dtype)
        for name, array in arrays.items():
            if self.episode_steps:
                into[_FIELD + name][at, :steps], into[_FIELD + name][at, steps:] = array, 0
            else:
                into[_FIELD + name][at] = array
        if self.episode_steps:
            into[LENGTH][at] = steps

    def _steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        name, first = next(iter(arrays.items()))
        steps = len(first) if first.ndim else 0
        if not 0 < steps <= self.episode_steps:
            raise UsageError(
                f"an episode of {steps} steps was added (by '{name}'), and the buffer is for 1 to "
                f"{self.episode_steps}: raise episode_steps, or add a long episode in parts"
            )
        return steps

    def read(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        """Returns copies of a batch's arrays, under the user's names: [N, ...], of episodes [N, longest, ...]."""
        longest = int(arrays[LENGTH].max()) if self.episode_steps else None
        return {
            name: torch.from_numpy(
                np.array(arrays[_FIELD + name][:, :longest] if longest else arrays[_FIELD + name])
            )
            for name in self.fields
        }


def as_array(value: Any) -> np.ndarray:
    """Returns a tensor, number, list or array as an array in this process's memory; bfloat16, which numpy lacks, as
    float32."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:
            value = value.float()
    return np.asarray(value)


def _is_of_kind(given: np.dtype, stored: str) -> bool:
    """Whether an array can be stored as such a dtype: without a change of kind; an integer as any kind of integer."""
    is_whole = given.kind in "iu" and np.dtype(stored).kind in "iu"
    return is_whole or np.can_cast(given, stored, "same_kind")


def _check_range(name: str, array: np.ndarray, stored: str) -> None:
    """Raises UsageError for integers that a dtype of integers cannot hold."""
    if np.dtype(stored).kind not in "iu" or np.can_cast(array.dtype, stored, "safe") or not array.size:
        return
    least, most, allowed = int(array.min()), int(array.max()), np.iinfo(stored)
    if least < allowed.min or most > allowed.max:
        value = least if least < allowed.min else most
        raise UsageError(
            f"'{name}' of a row has the value {value}, and the buffer's {stored} is for {allowed.min} to "
            f"{allowed.max}: name a larger dtype in the buffer's row, such as int64"
        )


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"
