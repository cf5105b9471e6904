"""The target networks of an algorithm: copies of the network that follow the learning one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from veldt.algorithms.base import OffPolicy
from veldt.algorithms.groups import TargetNetwork, Targets, shown_member
from veldt.algorithms.transitions import Transitions
from veldt.errors import ARRAYS_DO_NOT_FIT, CheckpointError, UsageError
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import Forward, Network


def check_target_networks(declared: Any, names: Sequence[str]) -> None:
    """Raises UsageError if an algorithm's `target_networks` are something else, or one has the prefix of no parameter;
    `names` are the parameters of the network."""
    if not isinstance(declared, Mapping) or not all(
        isinstance(one, TargetNetwork) for one in declared.values()
    ):
        raise UsageError(
            f"the algorithm's target_networks are {shown_member(declared)}: they must be a dictionary of "
            "veldt.algorithms.groups.TargetNetwork by name, {} for none"
        )
    for name, target in declared.items():
        if not any(each.startswith(target.prefix) for each in names):
            raise UsageError(
                f"the target network {name} has no parameters: no name begins with '{target.prefix}', as in "
                f"{', '.join(names[:3])}"
            )


class TargetNetworks:
    """See `TargetNetwork`. `forwards` are the forward passes.

    Args:
        declared: the algorithm's `target_networks`.
        online: the learning network's parameters.
        make: makes another network with the same initial weights.
        compiled: returns the forward pass of a network.

    Raises:
        UsageError: as of `check_target_networks`.
    """

    def __init__(
        self,
        declared: Mapping[str, TargetNetwork],
        online: FlatParameters,
        make: Callable[[], tuple[Network, FlatParameters]],
        compiled: Callable[[Network], Forward] = lambda network: network,
    ) -> None:
        check_target_networks(declared, online.names)
        self._declared, self._online = declared, online
        self._parameters: dict[str, FlatParameters] = {}
        self._names: dict[str, list[str]] = {}
        self._parts: dict[str, list[slice]] = {}
        self.forwards = Targets()
        for name, target in declared.items():
            network, parameters = make()
            own = [each for each in parameters.names if each.startswith(target.prefix)]
            parameters.share(online, set(parameters.names) - set(own))
            self._parameters[name], self._names[name] = parameters, own
            self._parts[name] = parameters.slices(target.prefix)
            self.forwards[name] = compiled(network)

    def batch(self, algorithm: OffPolicy, forward: Forward, transitions: Transitions) -> Any:
        """Returns what the algorithm's `targets` makes of transitions, without gradient.

        Raises UsageError if it returns None.
        """
        with torch.no_grad():
            batch = algorithm.targets(forward, self.forwards, transitions)
        if batch is None:
            raise UsageError(
                f"{algorithm.name}: {type(algorithm).__name__}.targets returned None: it must return the batch that "
                "`loss` gets"
            )
        return batch

    def move(self, before: int, version: int) -> None:
        """Makes the updates that are due from version `before` of the parameters to `version`.

        More than one with others' updates; none if updates were lost (with the node of a parameter shard).
        """
        for name, target in self._declared.items():
            if (times := version // target.every - before // target.every) > 0:
                self._follow(name, 1.0 - (1.0 - target.tau) ** times)

    def renew(self) -> None:
        """Copies the parameters to all target networks."""
        for name in self._declared:
            self._follow(name, 1.0)

    def _follow(self, name: str, rate: float) -> None:
        self._parameters[name].polyak_update(self._online, rate, self._parts[name])

    def tensors(self) -> dict[str, Tensor]:
        """Their fp32 weights as `target/parameter`, and their networks' buffers."""
        return {
            f"{name}/{key}": tensor
            for name, own in self._parameters.items()
            for key, tensor in own.tensors().items()
            if key in self._names[name] or key not in own.names
        }

    def load(self, weights: Mapping[str, Any]) -> None:
        """Copies numpy arrays named as in `tensors`. Raises CheckpointError if names or shapes differ."""
        try:
            for name, own in self._parameters.items():
                prefix = f"{name}/"
                own.load(
                    {
                        key.removeprefix(prefix): torch.from_numpy(array)
                        for key, array in weights.items()
                        if key.startswith(prefix)
                    },
                    None if len(self._names[name]) == len(own.names) else self._names[name],
                )
        except ARRAYS_DO_NOT_FIT as error:
            raise CheckpointError(
                f"the checkpoint's target networks do not fit this algorithm: {error}"
            ) from None
