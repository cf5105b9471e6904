"""Values of the user's own as messages carry them, between processes and without pickle: a tree of JSON, and arrays.

Numbers, texts and None are themselves; each other value is a pair of its kind and its content. The content of an array
or a tensor is its key in the mapping of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from veldt.errors import UsageError

_TREE, _ARRAYS = "tree", "arrays"
_DICT, _LIST, _TUPLE, _ARRAY, _TENSOR, _BFLOAT16 = "dict", "list", "tuple", "array", "tensor", "bfloat16"


def packed(value: Any, what: str) -> dict[str, Any]:
    """Returns `value` as a field of a message.

    Args:
        what: names the value in an error.

    Raises:
        UsageError: a part of it is something else than None, a number, a text, an array, a tensor, or a list, tuple or
            dictionary of these.
    """
    arrays: dict[str, np.ndarray] = {}
    return {_TREE: _encoded(value, what, arrays), _ARRAYS: arrays}


def unpacked(field: Mapping[str, Any]) -> Any:
    """Returns the value that `packed` was given."""
    return _decoded(field[_TREE], field[_ARRAYS])


def _encoded(value: Any, what: str, arrays: dict[str, np.ndarray]) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        pairs = [(_key(key, what), _encoded(item, f"{what}[{key!r}]", arrays)) for key, item in value.items()]
        return [_DICT, pairs]
    if isinstance(value, list | tuple):
        kind = _LIST if isinstance(value, list) else _TUPLE
        return [kind, [_encoded(item, f"{what}[{at}]", arrays) for at, item in enumerate(value)]]
    kind, array = _as_array(value, what)
    at = str(len(arrays))
    arrays[at] = array
    return [kind, at]


def _key(key: Any, what: str) -> Any:
    if isinstance(key, bool | int | float | str):
        return key
    raise UsageError(
        f"{what} has the key {key!r}, of the type {type(key).__name__}: the keys of a dictionary that is sent to "
        "another process must be numbers or strings"
    )


def _as_array(value: Any, what: str) -> tuple[str, np.ndarray]:
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized:
        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:  # which numpy lacks
            return _BFLOAT16, value.contiguous().view(torch.int16).numpy()
        return _TENSOR, value.resolve_conj().resolve_neg().numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return _ARRAY, value
    dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
    raise UsageError(
        f"{what} is of the type {type(value).__name__}{dtype}: what is sent to another process must be None, a "
        "number, a string, an array or a tensor of numbers, or a list, tuple or dictionary of these; convert it"
    )


def _decoded(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, content = tree
    if kind == _DICT:
        return {key: _decoded(item, arrays) for key, item in content}
    if kind in (_LIST, _TUPLE):
        items = [_decoded(item, arrays) for item in content]
        return items if kind == _LIST else tuple(items)
    array = arrays[content].copy()  # that of a message cannot be written
    if kind == _ARRAY:
        return array
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if kind == _BFLOAT16 else tensor
