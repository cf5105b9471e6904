"""What a role of the user's is: a function, and how many processes run it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from veldt.errors import UsageError, did_you_mean
from veldt.setting_metadata import check_type, hints_of


@dataclass(frozen=True)
class Processes:
    """A role of a program: `count` processes that each call `function(process, **pieces, **kwargs)`.

    The function's parameters after the first say which pieces it takes, by name. It works while `process.running`.
    What it returns comes back from `run_roles`: None, numbers, texts, arrays and tensors, and lists, tuples and
    dictionaries of all these, nested to any depth. (A tensor comes back on the CPU.)

    Args:
        kwargs: keyword arguments of the function that are no pieces.
        max_restarts: how often a process that dies, or whose function raises, is started again, with an empty state;
            after that the program ends.
        deadline_s: seconds without a sign of life (`process.running`, or any call of a piece) after which a process
            counts as hung.
        threads: threads of PyTorch in each.
        gpus: GPUs that each needs, where Ray assigns them.
        ends_all: whether the program ends when all `count` processes of this role have returned. By default it ends
            when the processes of all roles have.

    Raises:
        UsageError: a value is not allowed.
    """

    function: Callable[..., Any]
    count: int = 1
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_restarts: int = 0
    deadline_s: float = 300.0
    threads: int = 1
    gpus: int = 0
    ends_all: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(
                f"a role's function is {self.function!r}: give a function, whose first argument is its process"
            )
        for name, least in {"count": 1, "max_restarts": 0, "deadline_s": 1, "threads": 1, "gpus": 0}.items():
            value = check_type(f"{name} of Processes", getattr(self, name), hints_of(Processes)[name])
            if not value >= least:
                raise UsageError(f"{name} of Processes is {value}: it must be at least {least}")

    def pieces(self, known: Collection[str]) -> list[str]:
        """Returns the names of the pieces that the function takes.

        Raises:
            UsageError: it takes something that is neither a piece nor in `kwargs`, or has no parameter for its process.
        """
        name = getattr(self.function, "__name__", repr(self.function))
        parameters = list(inspect.signature(self.function).parameters.values())
        first = parameters[0] if parameters else None
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            raise UsageError(f"the function {name} has no parameter for its process: make that its first one")
        rest = {
            one.name: one for one in parameters[1:] if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
        for at, parameter in rest.items():
            if at not in known and at not in self.kwargs and parameter.default is parameter.empty:
                raise UsageError(
                    f"the function {name} takes '{at}'{did_you_mean(at, [*known, *self.kwargs])}, and there is no such "
                    f"piece: the pieces are {', '.join(known) or 'none'}; other arguments are in kwargs"
                )
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        for at in self.kwargs:
            if (at not in rest and not takes_any) or at in known:
                why = (
                    "is the name of a piece" if at in known else f"is not a parameter of the function {name}"
                )
                raise UsageError(f"kwargs has '{at}', which {why}: take another name")
        return [at for at in rest if at in known]
