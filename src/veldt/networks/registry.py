"""The registry of networks: torsos, from observations to features, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from veldt.errors import UsageError
from veldt.registry import Registry, registering_module


@dataclass(frozen=True)
class NetworkEntry:
    """A torso.

    Args:
        make: makes the module from the shape of an observation. None: the MLP, or what fits the observation (auto).
        smallest_image: smallest side in pixels of an image that it takes; 0: it takes observations of any shape whole.
    """

    make: Callable[..., nn.Module] | None
    smallest_image: int = 0


NETWORKS: Registry[NetworkEntry] = Registry("network", "veldt.networks.builtin")


def register_network(name: str, factory: Callable[[Any], nn.Module]) -> None:
    """Makes a network known by `name`, so that `--network` and recipes can use it.

    Call it where a module of yours is imported, so that every process of a run that imports the module knows the
    network.

    Args:
        name: lower-case letters, digits and dashes.
        factory: gets the shape of one observation (a dictionary of shapes for a Dict space), and returns a module from
            observations [N, ...] to float32 features [N, F].

    Raises:
        UsageError: the factory is not callable, or another module has registered a network of this name.
    """
    if not callable(factory):
        raise UsageError(
            f"the network {name} is {factory!r}: it must be a function from a shape to an nn.Module"
        )
    NETWORKS.add(name, NetworkEntry(factory), registering_module())
