"""In which arithmetic the torso computes, and the forward pass that goes with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from veldt.networks.actor_critic import ActorCritic
from veldt.networks.build import Custom
from veldt.networks.flat import FlatParameters


def apply_precision(network: ActorCritic, precision: str, device: torch.device) -> FlatParameters:
    """Puts `network` on `device` in "fp32" or "bf16", with flat fp32 masters."""
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return FlatParameters(network, network.low_precision_parts() if precision == "bf16" else ())


def choose_precision(
    make_network: Callable[[], ActorCritic], observation: Callable[[], Any], device: torch.device
) -> tuple[str, str]:
    """The faster of fp32 and bf16 for a forward and backward pass, and the measurement in words.

    A user's own module is left in fp32: what it does with its inputs is not known.
    """
    seconds = {}
    for precision in ("fp32", "bf16"):
        network = make_network()
        if isinstance(network.torso, Custom):
            return "fp32", "the network is the user's own"
        parameters = apply_precision(network, precision, device)
        inputs = observation()
        timings = []
        for _ in range(4):
            begin = time.perf_counter()
            policy, value = network(inputs)
            parameters.backward(policy.square().mean() + value.square().mean())
            if device.type == "cuda":
                torch.cuda.synchronize()
            timings.append(time.perf_counter() - begin)
        seconds[precision] = min(timings[1:])
    chosen = min(seconds, key=seconds.__getitem__)
    measured = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in seconds.items())
    return chosen, f"forward and backward: {measured}"


class CompiledForward:
    """A network's forward pass through torch.compile; falls back to the ordinary one at the first failure."""

    def __init__(self, network: nn.Module, on_fallback: Callable[[str], None]) -> None:
        self._network, self._on_fallback = network, on_fallback
        self._forward: Callable[..., Any] = torch.compile(network)

    def __call__(self, observation: Any) -> Any:
        try:
            result = self._forward(observation)
        except Exception as error:
            if self._forward is self._network:
                raise
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            self._on_fallback(f"torch.compile failed ({first[:200]}): going on without it")
            self._forward = self._network
            result = self._network(observation)
        return result
