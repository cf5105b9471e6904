"""The policy as one function of raw observations: preprocessing, network, and the greedy action of the environment."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch import Tensor, nn

from veldt.agent import Agent
from veldt.algorithms.base import Algorithm
from veldt.algorithms.policy_gradient import PolicyGradient
from veldt.envs.spec import ActionSpec
from veldt.exporting.raw_observations import GraphArray, RawObservations
from veldt.networks.recurrent import recurrent_size_of

ACTION, STATE, RESET, NEXT_STATE = "action", "state", "reset", "next_state"
_MEANINGS = {
    ACTION: "the greedy action, as the environment takes it",
    "logits": "the unnormalised logarithms of the actions' probabilities",
    "probabilities": "the probability of each action",
    "mean": "the means of the actions' normal distributions; -1 and 1 are the bounds of the action space",
    "deviation": "the standard deviations of these",
    "action_values": "Q of each action",
    "value": "the estimated return, in units of the rewards that the run learned from",
    NEXT_STATE: f"the next step's {STATE}",
}


class PolicyGraph(nn.Module):
    """A function of tensors for `inputs` that returns tensors for `outputs`, in their order.

    The outputs are those of `Agent.act` (greedy), `distribution`, `action_values` and `value`, where the algorithm has
    them. A policy with a recurrent state takes it, and `reset`, and returns the next one.

    Raises:
        UsageError: a part of the observation space has no such operations.
    """

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        with contextlib.closing(agent.make_env()) as env:
            self._raw = RawObservations(env, agent.spec, agent.source.is_atari)
        self._network = _plain_copy(agent.network)
        self._algorithm = agent.config.make_algorithm(agent.spec.action)
        self._to_env = ActionToEnv(agent.spec.action)
        self._state_size = recurrent_size_of(self._network)
        self.inputs = list(self._raw.arrays)
        if self._state_size:
            self.inputs += [
                GraphArray(STATE, "float32", (self._state_size,), f"0 at first, then the last {NEXT_STATE}"),
                GraphArray(RESET, "bool", (), "whether the observation is the first of an episode"),
            ]
        with torch.no_grad():
            found = self._results(tuple(array.example() for array in self.inputs))
        self.outputs = [_described(name, tensor) for name, tensor in found.items()]

    def split(self, observations: list[Any]) -> list[Tensor]:
        """Returns the inputs for N observations of the environment, each the first of an episode."""
        arrays = [torch.from_numpy(array) for array in self._raw.split(observations)]
        if self._state_size:
            count = len(observations)
            arrays += [torch.zeros(count, self._state_size), torch.ones(count, dtype=torch.bool)]
        return arrays

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._results(inputs).values())

    def _results(self, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
        if not self._state_size:
            return self._outputs(_Once(self._network), self._raw(inputs))
        *raw, state_NM, reset_N = inputs
        observation = self._raw(tuple(raw))
        *outputs, next_state_NM = self._network(observation, state_NM, reset_N.unsqueeze(0))
        return self._outputs(lambda _: tuple(outputs), observation) | {NEXT_STATE: next_state_NM}

    def _outputs(self, forward: Any, observation: Any) -> dict[str, Tensor]:
        algorithm, outputs = self._algorithm, dict[str, Tensor]()
        outputs[ACTION] = self._to_env(algorithm.best_action(forward, observation))
        if isinstance(algorithm, PolicyGradient) and not self._to_env.is_box:
            outputs["logits"] = forward(observation)[0]
        if _defines(algorithm, "policy"):
            outputs |= algorithm.policy(forward, observation)
        for name in ("action_values", "value"):
            if _defines(algorithm, name):
                outputs[name] = getattr(algorithm, name)(forward, observation)
        # An output must not be an input, nor another output, as it is: a graph has one name for each.
        return {name: tensor.clone() for name, tensor in outputs.items()}


class _Once:
    """A network's forward pass, computed once for the same tensors: the outputs ask for it several times."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._known: list[tuple[tuple[Any, ...], Any]] = []

    def __call__(self, *inputs: Any) -> Any:
        for known, result in self._known:
            if len(known) == len(inputs) and all(a is b for a, b in zip(known, inputs, strict=True)):
                return result
        result = self._network(*inputs)
        self._known.append((inputs, result))
        return result


class ActionToEnv(nn.Module):
    """`ActionSpec.to_env` for a batch of stored actions."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        self._shape = () if spec.kind == "discrete" else spec.env_shape
        self._dtype = torch.int64 if spec.kind == "discrete" else getattr(torch, spec.env_dtype)
        self.is_box = spec.kind == "box"
        self._start = torch.tensor(spec.start[0] if spec.kind == "discrete" else spec.start)
        self._rounds = self.is_box and spec.takes_integers
        # float32 has all numbers of float16, but not all of the large integers.
        precision = torch.float32 if spec.env_dtype in ("float16", "float32") else torch.float64
        if self.is_box:
            self._low, self._high = (torch.tensor(limit, dtype=precision) for limit in spec.limits)
            self._centre, self._half = (
                torch.tensor(numbers, dtype=precision) for numbers in (spec.centre, spec.half_range)
            )

    def forward(self, action: Tensor) -> Tensor:
        if self.is_box:
            scaled = self._centre + self._half * action.to(self._centre.dtype)
            action = torch.minimum(torch.maximum(scaled, self._low), self._high)
            if self._rounds:
                action = action.round()
        else:
            action = action + self._start
        return action.to(self._dtype).reshape(action.shape[0], *self._shape)


def _plain_copy(network: nn.Module) -> nn.Module:
    """A copy whose parameters have memory of their own, and no gradient: an agent's are views of one vector."""
    copied = copy.deepcopy(network)
    for parameter in copied.parameters():
        parameter.requires_grad_(False)
        parameter.data = parameter.data.contiguous().clone()
    return copied


def _defines(algorithm: Algorithm, method: str) -> bool:
    return getattr(type(algorithm), method) is not getattr(Algorithm, method)


def _described(name: str, tensor: Tensor) -> GraphArray:
    kind = str(tensor.dtype).removeprefix("torch.")
    meaning = _MEANINGS[name.partition("_")[0] if name.startswith("probabilities_") else name]
    return GraphArray(name, kind, tuple(tensor.shape[1:]), meaning)
