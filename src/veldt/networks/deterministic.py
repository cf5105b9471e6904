"""A deterministic policy and its Q function."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veldt.networks.torsos import norm, orthogonal


class DeterministicActorCritic(nn.Module):
    """π(s) and Q(s, a) for stored actions in [-1, 1], each with its own body (Lillicrap et al. 2016).

    The action enters the critic at the last layer of its torso: with hidden layers of 400 and 300 units, at the second
    one, as in section 7 of the paper. The parameters' names begin with `actor.` and `critic.`.

    Args:
        build_body: builds a torso without its last layer (see `torsos`).
        actions: dimensions of the action.
    """

    def __init__(self, build_body: Callable[[], nn.Module], actions: int) -> None:
        super().__init__()
        self.actor = _Part(build_body(), 0, actions)
        self.critic = _Part(build_body(), actions, 1)

    @property
    def torso(self) -> nn.Module:
        """The actor's body."""
        return self.actor.body

    def low_precision_parts(self) -> list[nn.Module]:
        """The modules that may compute in bf16: those before the action, because bf16 rounds actions to hundredths."""
        return [self.actor.body, self.critic.body]

    def forward(self, observation: Tensor | dict[str, Tensor], action: Tensor | None = None) -> Tensor:
        """Returns the policy's actions, float32 [N, D]; or, for given actions float [N, D], their Q, float32 [N]."""
        if action is None:
            return self.actor(observation).tanh()
        return self.critic(observation, action).squeeze(-1)


class _Part(nn.Module):
    """A body, its last layer with `extra` more inputs, and an output layer with weights near zero."""

    def __init__(self, body: nn.Module, extra: int, outputs: int) -> None:
        super().__init__()
        self.body = body
        inputs, width = int(body.features) + extra, int(body.last_layer_width)  # type: ignore[arg-type]
        self.hidden = orthogonal(nn.Linear(inputs, width)) if width else None
        self.norm = norm(width, self.hidden is not None and bool(body.layer_norm))
        self.last = nn.Linear(width or inputs, outputs)
        for parameter in self.last.parameters():
            # Initial actions and values are near zero (section 7 of the paper).
            nn.init.uniform_(parameter, -3e-3, 3e-3)

    def forward(self, observation: Tensor | dict[str, Tensor], action: Tensor | None = None) -> Tensor:
        x = self.body(observation).float()
        if action is not None:
            x = torch.cat([x, action], -1)
        return self.last(x if self.hidden is None else F.relu(self.norm(self.hidden(x))))
