"""Actors, critics, models and recurrent cores as a user writes them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from veldt.envs.spec import EnvSpec
from veldt.networks.own_core import where_reset


def inputs_of(spec: EnvSpec) -> int:
    return math.prod(spec.observation_shape)


def actor(spec: EnvSpec) -> nn.Module:
    """For choices: logits. For real numbers: means."""
    outputs = spec.action.sizes[0] if spec.action.kind == "discrete" else len(spec.action.low)
    return nn.Sequential(nn.Linear(inputs_of(spec), 16), nn.Tanh(), nn.Linear(16, outputs))


def critic(spec: EnvSpec) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs_of(spec), 16), nn.Tanh(), nn.Linear(16, 1))


def deterministic_actor(spec: EnvSpec) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs_of(spec), 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())


class ActionCritic(nn.Module):
    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        inputs = inputs_of(spec) + len(spec.action.low)
        self.layers = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.layers(torch.cat([observation, action], -1))


class Whole(nn.Module):
    """Policy, value, and a head more."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs_of(spec), 16), nn.Tanh())
        self.policy, self.value, self.more = (
            nn.Linear(16, spec.action.sizes[0]),
            nn.Linear(16, 1),
            nn.Linear(16, 3),
        )

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        features = self.body(observation)
        return self.policy(features), self.value(features), self.more(features)


class Pair(nn.Module):
    """For DDPG: both in one."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.actor, self.q = deterministic_actor(spec), ActionCritic(spec)

    def forward(self, observation: Tensor, action: Tensor | None = None) -> Tensor:
        return self.actor(observation) if action is None else self.q(observation, action)


def distributions(spec: EnvSpec) -> nn.Module:
    actions = spec.action.sizes[0]
    return nn.Sequential(nn.Linear(inputs_of(spec), 16 * actions), nn.Unflatten(1, (actions, 16)))


class GRU(nn.Module):
    """A core whose state is a dictionary: what it remembers, and how many steps of the episode it has seen."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(inputs, 16)

    def initial_state(self, batch: int) -> dict[str, Any]:
        return {"hidden": (torch.full((batch, 16), 0.1),), "age": torch.zeros(batch, dtype=torch.int64)}

    def forward(
        self, features: Tensor, state: dict[str, Any], reset: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        (hidden,), age = state["hidden"], state["age"]
        initial, outputs = self.initial_state(age.shape[0]), []
        for features_B, reset_B in zip(features, reset, strict=True):
            hidden = where_reset(reset_B, initial["hidden"][0].to(hidden), hidden)
            age = where_reset(reset_B, initial["age"].to(age), age) + 1
            hidden = self.cell(features_B, hidden)
            outputs.append(torch.cat([hidden, age.float().unsqueeze(-1).log()], -1))
        return torch.stack(outputs), {"hidden": (hidden,), "age": age}


class RecurrentWhole(nn.Module):
    """A model with a state, a flat tensor."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.core = nn.GRUCell(inputs_of(spec), 16)
        self.policy, self.value = nn.Linear(16, spec.action.sizes[0]), nn.Linear(16, 1)

    def initial_state(self, batch: int) -> Tensor:
        return torch.zeros(batch, 16)

    def forward(self, observation: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, ...]:
        outputs = []
        for seen, reset_B in zip(observation.unflatten(0, reset.shape), reset, strict=True):
            state = self.core(seen, where_reset(reset_B, torch.zeros_like(state), state))
            outputs.append(state)
        features = torch.cat(outputs)
        return self.policy(features), self.value(features), state
