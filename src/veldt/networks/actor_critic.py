"""Policy and value heads on a torso."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from veldt.envs.spec import ActionSpec
from veldt.functional.distributions import Categorical, Distribution, Gaussian, MultiCategorical
from veldt.networks.torsos import orthogonal


def policy_distribution(action: ActionSpec) -> Distribution:
    """Returns the distribution of a stochastic policy over this action space."""
    if action.kind == "discrete":
        return Categorical(action.sizes[0])
    if action.kind == "multi":
        return MultiCategorical(action.sizes)
    return Gaussian(action.shape[0])


class ActorCritic(nn.Module):
    """π and V. With `shared` both use one torso (Atari), else each has its own (small vectors then learn faster).

    The heads compute in fp32 even if the torso computes in bf16: probability ratios must not contain rounding errors.
    """

    def __init__(self, build_torso: Callable[[], nn.Module], action: ActionSpec, shared: bool) -> None:
        super().__init__()
        self.torso = build_torso()
        self.value_torso = None if shared else build_torso()
        self.is_gaussian = action.kind == "box"
        outputs = action.shape[0] if self.is_gaussian else policy_distribution(action).num_parameters
        features = int(self.torso.features)  # type: ignore[arg-type]
        # Small initial weights give a nearly uniform policy, so exploration starts without a random preference.
        self.policy_head = orthogonal(nn.Linear(features, outputs), 0.01)
        self.value_head = orthogonal(nn.Linear(features, 1), 1.0)
        if self.is_gaussian:
            self.log_deviation = nn.Parameter(torch.zeros(outputs))

    def low_precision_parts(self) -> list[nn.Module]:
        """The modules that may compute in bf16."""
        return [part for part in (self.torso, self.value_torso) if part is not None]

    def forward(
        self, observation: Tensor | dict[str, Tensor], *, with_values: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Parameters of the policy's distribution, float32 [N, P], and values, float32 [N].

        Without values, for callers that do not read them, all are 0.
        """
        features = self.torso(observation).float()
        if not with_values:
            return self._policy(features), features.new_zeros(len(features))
        value_features = features if self.value_torso is None else self.value_torso(observation).float()
        return self._policy(features), self.value_head(value_features).squeeze(-1)

    def _policy(self, features: Tensor) -> Tensor:
        parameters: Tensor = self.policy_head(features)
        if self.is_gaussian:
            parameters = torch.cat([parameters, self.log_deviation.expand_as(parameters)], -1)
        return parameters
