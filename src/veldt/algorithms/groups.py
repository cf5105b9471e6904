"""Which parameters an update rule moves, and which a target network has a copy of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from veldt.errors import UsageError
from veldt.functional.updates import UpdateRule
from veldt.networks.precision import Forward


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share an update rule, a learning rate and an update interval.

    A parameter belongs to the group with the longest prefix that its name begins with; each must belong to one.

    Args:
        name: names the group's loss in `Loss.by_group`, and the group in metrics and checkpoints.
        rule: the update rule.
        prefixes: beginnings of parameters' names; "" is the beginning of every name.
        learning_rate: the learning rate as a function of progress in [0, 1]; None: the algorithm's `learning_rate`.
        every: the group moves in every `every`-th update of the learner, for example 2 for TD3's delayed actor.
        max_grad_norm: upper limit of the norm of this group's gradient; 0: no limit. The algorithm's `max_grad_norm`
            limits the norm over all groups, before.

    Example: an actor that moves in every second update, and all other parameters with RMSProp in each:

        ParameterGroup("actor", Adam(), ("actor.",), every=2, learning_rate=lambda progress: 1e-4),
        ParameterGroup("critic", RMSProp())
    """

    name: str
    rule: UpdateRule
    prefixes: Sequence[str] = ("",)
    learning_rate: Callable[[float], float] | None = None
    every: int = 1
    max_grad_norm: float = 0.0

    def __post_init__(self) -> None:
        rule: Any = self.rule
        # An optimiser of torch, say, or a class.
        if isinstance(rule, type) or not callable(getattr(rule, "state", None)):
            raise UsageError(
                f"the parameter group {self.name} has the rule {rule!r}: it must be an update rule of "
                "veldt.functional.updates, such as Adam()"
            )
        if self.every < 1:
            raise UsageError(
                f"the parameter group {self.name} moves every {self.every} updates: give 1 or more"
            )
        if self.max_grad_norm < 0:
            raise UsageError(
                f"the parameter group {self.name} has a max_grad_norm of {self.max_grad_norm:g}: it must be 0 (no "
                "limit) or more"
            )

    def longest_prefix(self, parameter: str) -> int:
        """Length of the longest prefix that fits the name; -1 if none does."""
        return max((len(prefix) for prefix in self.prefixes if parameter.startswith(prefix)), default=-1)


@dataclass(frozen=True)
class TargetNetwork:
    """A target network and its updates.

    Args:
        every: updates of the parameters between two updates of the target network.
        tau: fraction by which an update moves it towards the parameters; 1: a copy.
        prefix: only parameters whose names begin with it have a copy. The forward pass of the target network uses the
            learning network's own for the rest.
    """

    every: int
    tau: float
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UsageError(f"a target network moves every {self.every} updates: give 1 or more")
        if not 0 < self.tau <= 1:
            raise UsageError(f"a target network has a tau of {self.tau}: it must be in (0, 1]")


class Targets(dict[str, Forward]):
    """The forward passes of the target networks by name. With a single one, the object itself can be called, too.

    Raises:
        UsageError: there is no target network of this name, or not a single one.
    """

    def __call__(self, *args: Any) -> Any:
        if len(self) != 1:
            raise UsageError(
                f"target(...) was called, and the algorithm has {len(self)} target networks: it is for a single one; "
                "give the name, as in target['slow'](...)"
            )
        (forward,) = self.values()
        return forward(*args)

    def __missing__(self, name: str) -> Forward:
        raise UsageError(
            f"the algorithm has no target network {name!r}: `target_networks` has {', '.join(self) or 'none'}"
        )


def group_of(groups: Sequence[ParameterGroup], parameter: str) -> ParameterGroup | None:
    """Returns the group of the parameter with this name; None if it belongs to none."""
    best = max(groups, key=lambda group: group.longest_prefix(parameter))
    return best if best.longest_prefix(parameter) >= 0 else None


def shown_member(declared: Any) -> str:
    """Returns in words what an algorithm declares as `groups` or `target_networks`, for messages."""
    return "a method without @property" if callable(declared) else repr(declared)
