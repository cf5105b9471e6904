"""The user's own recurrent core, instead of the LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from veldt.errors import UsageError
from veldt.networks.own import form_of, tried

_STEPS, _ENVS = 3, 2  # of the forward pass that checks a module


class StateLayout:
    """Converts a state, which may be a tensor or tuples, lists and dictionaries of tensors, to one float32 vector for
    each env and back. Each tensor is [B, ...]."""

    def __init__(self, example: Any) -> None:
        self._example = example
        self._shapes = [tensor.shape[1:] for tensor in leaves(example)]
        self._dtypes = [tensor.dtype for tensor in leaves(example)]
        self._sizes = [shape.numel() for shape in self._shapes]
        self.size = sum(self._sizes)

    def flat(self, state: Any) -> Tensor:
        """Returns float32 [B, size]."""
        return torch.cat(
            [tensor.reshape(tensor.shape[0], -1).float() for tensor in leaves(state, self._example)], -1
        )

    def nested(self, flat_BM: Tensor) -> Any:
        """Returns the state in the form of the example."""
        pieces = zip(flat_BM.split(self._sizes, -1), self._shapes, self._dtypes, strict=True)
        tensors = iter([piece.reshape(-1, *shape).to(dtype) for piece, shape, dtype in pieces])
        return _replaced(self._example, lambda: next(tensors))


def leaves(state: Any, example: Any = None) -> list[Tensor]:
    """The tensors of a state, in its order; where dictionaries of `example` have the same names, in the order of these.

    Raises UsageError for anything else in the state.
    """
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, dict):
        is_alike = isinstance(example, dict) and example.keys() == state.keys()
        order = example if is_alike else dict.fromkeys(state)
        return [tensor for name, like in order.items() for tensor in leaves(state[name], like)]
    if isinstance(state, tuple | list):
        is_alike = isinstance(example, tuple | list) and len(example) == len(state)
        alike = example if is_alike else [None] * len(state)
        return [tensor for part, like in zip(state, alike, strict=True) for tensor in leaves(part, like)]
    raise UsageError(
        f"a recurrent state has a part of type {type(state).__name__}: it must consist of tensors [B, ...] in tuples, "
        "lists or dictionaries"
    )


def has_shapes_of(example: Any, state: Any) -> bool:
    """Whether the tensors of a state have the shapes of those of `example`. Errors as in `leaves`."""
    return [each.shape for each in leaves(state, example)] == [each.shape for each in leaves(example)]


def _replaced(state: Any, following: Callable[[], Tensor]) -> Any:
    if isinstance(state, Tensor):
        return following()
    if isinstance(state, dict):
        return {name: _replaced(part, following) for name, part in state.items()}
    parts = [_replaced(part, following) for part in state]
    if isinstance(state, list):
        return parts
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def initial_state(module: nn.Module, envs: int, subject: str) -> Any:
    """Returns a module's state of so many envs at the beginning of an episode."""
    method: Callable[[int], Any] = module.initial_state  # type: ignore[assignment]
    return tried(f"{subject}'s initial_state", method, envs)


def where_reset(reset_B: Tensor, initial: Any, state: Any) -> Any:
    """The initial state for envs that are reset, else the state; for use in a core.

    Args:
        reset_B: bool [B].
        initial, state: a tensor [B, ...], or tuples, lists and dictionaries of such tensors, in the same form.
    """
    pairs = zip(leaves(initial, state), leaves(state), strict=True)
    chosen = iter([torch.where(reset_B.view(-1, *[1] * (now.ndim - 1)), first, now) for first, now in pairs])
    return _replaced(state, lambda: next(chosen))


class OwnCore(nn.Module):
    """A core of the user: a module with two methods.

    * `initial_state(batch)` returns the state of B envs at the beginning of an episode: a tensor [B, ...], or tuples,
      lists and dictionaries of such tensors. It must not depend on parameters.
    * `forward(features, state, reset)` returns outputs float32 [T, B, H] and the state after the last row. `features`
      are float32 [T, B, F] in time order; `state` is that before the first row; `reset` bool [T, B] marks rows that
      begin an episode: before these, the state becomes the initial one (see `where_reset`).

    The gradient reaches back through all T rows. `units` is H, `size` the number of values in an env's state; see
    `networks.recurrent.LSTM`.

    Args:
        module: of the user.
        inputs: the number of features F.
        subject: names the module in messages.

    Raises:
        UsageError: the module lacks a method, returns other shapes, or ignores `reset`.
        NetworkError: the module raised an exception.
    """

    def __init__(self, module: nn.Module, inputs: int, subject: str) -> None:
        super().__init__()
        self.module = module
        if not callable(getattr(module, "initial_state", None)):
            raise UsageError(
                f"{subject} has no method initial_state(batch): a recurrent core must return the state of that many "
                "envs at the beginning of an episode"
            )
        initial = initial_state(module, _ENVS, subject)
        if any(tensor.ndim < 1 or len(tensor) != _ENVS for tensor in leaves(initial)):
            raise UsageError(
                f"{subject}'s initial_state returned {form_of(initial)} for {_ENVS} envs: it must return tensors "
                "[B, ...]"
            )
        self._state = StateLayout(initial)
        self.size = self._state.size
        features, reset = torch.zeros(_STEPS, _ENVS, inputs), torch.zeros(_STEPS, _ENVS, dtype=torch.bool)
        reset[0] = True
        found = []
        for start in (initial, self._state.nested(self._state.flat(initial) + 1.0)):
            result = tried(subject, module, features, start, reset)
            outputs = result[0] if isinstance(result, tuple) and len(result) == 2 else None
            if not isinstance(outputs, Tensor) or outputs.ndim != 3 or outputs.shape[:2] != (_STEPS, _ENVS):
                raise UsageError(
                    f"{subject} returned {form_of(result)} for features {list(features.shape)}: it must return "
                    f"outputs [T, B, H], here [{_STEPS}, {_ENVS}, H], and the state after them"
                )
            if not has_shapes_of(initial, result[1]):
                raise UsageError(
                    f"{subject} returned the state {form_of(result[1])}: it must have the form of initial_state's, "
                    f"{form_of(initial)}"
                )
            found.append(outputs)
        if not torch.allclose(found[0], found[1], rtol=1e-4, atol=1e-6):
            raise UsageError(
                f"{subject} gives other outputs for other states before rows with reset: before these, the state must "
                "become that of initial_state (see where_reset)"
            )
        self.units = int(found[0].shape[-1])

    def forward(self, features_TBF: Tensor, state_BM: Tensor, keep_TB1: Tensor) -> tuple[Tensor, Tensor]:
        """See `LSTM.forward`."""
        outputs, state = self.module(features_TBF, self._state.nested(state_BM), keep_TB1.squeeze(-1) == 0)
        return outputs.float(), self._state.flat(state)
