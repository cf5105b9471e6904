"""The user's own parts of a network: made from their functions, and checked by one forward pass.

setting   its function gets            the module maps

network   the shape of an observation  observations [N, ...] to features [N, F]; see `build_torso`
core      the number of features F     features [T, B, F] and a state to outputs [T, B, H]; see `OwnCore`
actor     the env's spec (`EnvSpec`)   observations to what the algorithm's policy needs
critic    the env's spec               observations, or observations and actions, to values
model     the env's spec               as the algorithm's whole network does; see `networks.own_heads`
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veldt.envs.spec import EnvSpec
from veldt.errors import NetworkError, UsageError, as_error
from veldt.runtime.activity import importing, running
from veldt.user_code.attribution import record_part
from veldt.user_code.import_path import load_function, name_of

Factory = Callable[[Any], nn.Module]
WHOLE_PARTS = ("actor", "critic", "model")
ROWS = 2  # rows of the forward pass that checks a module

# What the user's functions have returned in this process.
_made: weakref.WeakSet[nn.Module] = weakref.WeakSet()


@dataclass(frozen=True)
class OwnParts:
    """The user's own parts of a network: callables, or names as `module:function`; None where there is none."""

    network: str | Factory | None = None
    core: str | Factory | None = None
    actor: str | Factory | None = None
    critic: str | Factory | None = None
    model: str | Factory | None = None

    def __post_init__(self) -> None:
        for part in PARTS:
            own = getattr(self, part)
            if own is not None and not isinstance(own, str) and not callable(own):
                gets = (
                    "a shape" if part == "network" else "a number of features" if part == "core" else "a spec"
                )
                raise UsageError(
                    f"{part} is {own!r}: it must be a name, 'module:function' or a callable from {gets}"
                )

    def over(self, named: Any) -> OwnParts:
        """Returns these parts, and those that the object `named` names in attributes of the same names where there are
        none here."""
        return OwnParts(
            network=_first(self.network, named.network),
            core=_first(self.core, named.core),
            actor=_first(self.actor, named.actor),
            critic=_first(self.critic, named.critic),
            model=_first(self.model, named.model),
        )

    def callables(self) -> OwnParts:
        """Returns the parts that are callables."""
        given = {part: getattr(self, part) for part in PARTS}
        return OwnParts(**{part: own for part, own in given.items() if not isinstance(own, str)})

    def mapped(self, change: Callable[[Factory], Factory]) -> OwnParts:
        """Returns these parts with `change` applied to each callable."""
        given = {part: getattr(self, part) for part in PARTS}
        return OwnParts(**{part: change(own) if callable(own) else own for part, own in given.items()})

    def names(self) -> dict[str, str]:
        """The name of each part that there is."""
        given = {part: getattr(self, part) for part in PARTS}
        return {
            part: own if isinstance(own, str) else name_of(own)
            for part, own in given.items()
            if own is not None
        }


def _first(own: str | Factory | None, named: str) -> str | Factory | None:
    return (named or None) if own is None else own


# What the user's function gets, by the kind of part; any other gets the env's spec.
_GETS = {"network": "shape", "core": "features"}
PARTS = tuple(field.name for field in dataclasses.fields(OwnParts))
NO_PARTS = OwnParts()


def make_own(
    part: str, own: str | Factory, argument: Any, described: str, subject: str | None = None
) -> nn.Module:
    """Calls the user's function and returns its module.

    Args:
        part: the kind of part, as messages name it: "network", "actor".
        argument: what the function gets, `described` in messages: "the shape (4,)".
        subject: what messages call the part; by default `part` and the function's name.

    Raises:
        UsageError: the function does not exist, or returned something else, or the same module twice.
        NetworkError: it raised an exception.
    """
    name = own if isinstance(own, str) else name_of(own)
    subject = subject or f"{part} {name}"
    if isinstance(own, nn.Module):
        raise UsageError(
            f"{part} is an object of {type(own).__name__}, and a run makes several: give a function that makes one, "
            f"{part}=lambda {_GETS.get(part, 'spec')}: {type(own).__name__}(...)"
        )
    with importing(NetworkError, subject):
        function = load_function(own, part) if isinstance(own, str) else own
    with as_error(NetworkError, f"{subject} failed when it was made for {described}"), running(subject):
        module = function(argument)
    if not isinstance(module, nn.Module):
        raise UsageError(f"{subject} returned {type(module).__name__}: it must return an nn.Module")
    if module in _made:
        raise UsageError(
            f"{subject} returned the same module as in an earlier call: it must make a new one each time, because a "
            "run needs several, such as one to learn and one to evaluate"
        )
    _made.add(module)
    record_part(subject, name.partition(":")[0], (function, type(module)), NetworkError)
    return module


def tried(subject: str, module: Callable[..., Any], *inputs: Any) -> Any:
    """Returns the outputs of a module, without gradient. Raises NetworkError where it raised an exception."""
    shapes = ", ".join(map(form_of, inputs))
    with (
        torch.no_grad(),
        as_error(NetworkError, f"{subject} failed on the inputs {shapes}"),
        running(subject, "when it was tried out"),
    ):
        return module(*inputs)


def example(spec: EnvSpec) -> Tensor | dict[str, Tensor]:
    """Returns observations that are all 0, [2, ...], as a network gets them."""
    fields = {
        name: torch.zeros(ROWS, *field.network_shape, dtype=getattr(torch, field.dtype))
        for name, field in spec.observation.items()
    }
    return fields if spec.is_dict else fields[""]


def form_of(value: Any) -> str:
    """Returns dtype and shape of a tensor, or of those in a tuple or a dictionary, for messages."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {list(value.shape)}".removeprefix("torch.")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {form_of(part)}" for name, part in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(form_of, value)) + ")"
    return repr(value) if isinstance(value, int | float) else type(value).__name__


@dataclass(frozen=True)
class OwnModules:
    """The user's own actor, critic or model for an env with this spec: `modules` by part, `names` for messages."""

    spec: EnvSpec
    modules: Mapping[str, nn.Module]
    names: Mapping[str, str]

    @classmethod
    def make(cls, parts: OwnParts, spec: EnvSpec) -> OwnModules:
        """Makes the modules; see `make_own`."""
        given = {part: own for part in WHOLE_PARTS if (own := getattr(parts, part)) is not None}
        modules = {part: make_own(part, own, spec, "this environment's spec") for part, own in given.items()}
        return cls(spec, modules, {part: name for part, name in parts.names().items() if part in given})

    def get(self, part: str) -> nn.Module | None:
        return self.modules.get(part)

    def subject(self, part: str) -> str:
        return f"{part} {self.names[part]}"

    def refuse(self, part: str, algorithm: str, why: str) -> None:
        """Raises UsageError if there is this part, which the algorithm does not take."""
        if part in self.modules:
            raise UsageError(f"--{part} is {self.names[part]}, and {algorithm} {why}: leave it out")

    def check(
        self,
        part: str,
        module: Callable[..., Any],
        inputs: Sequence[Any],
        shapes: Sequence[tuple[int, ...]],
        meaning: str,
    ) -> Tensor:
        """Calls the module with `inputs`, and returns its output.

        Args:
            shapes: the shapes that the output may have.
            meaning: what the output is, as the end of a sentence: "values [N]".

        Raises:
            UsageError: the output has another shape, or is not a tensor of floats.
            NetworkError: the module raised an exception.
        """
        output = tried(self.subject(part), module, *inputs)
        if isinstance(output, Tensor) and output.is_floating_point() and tuple(output.shape) in shapes:
            return output
        raise UsageError(
            f"{self.subject(part)} returned {form_of(output)} for {ROWS} observations: it must return {meaning}, "
            f"here {' or '.join(str(list(shape)) for shape in shapes)}"
        )
