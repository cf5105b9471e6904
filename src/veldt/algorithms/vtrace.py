"""V-trace actor-critic: learns from the actions of older policies (Espeholt et al. 2018, IMPALA, sections 4.1 and 4.2).

The paper's loss is a sum over batch and time. Here it is the mean over the valid steps, as in the other algorithms, so
that learning rate, coefficients and max_grad_norm do not depend on the number of envs and steps, nor on the number of
reset steps among them. The paper's Atari settings are for 32 unrolls of 20 steps, so the paper's sums are 640 times
these means:

    in the paper                                    here
    baseline cost 0.5, on half the squared error    vf_coef 0.25
    entropy cost 0.01                               ent_coef 0.01
    maximum norm 40                                 max_grad_norm 40 / 640 = 0.0625
    RMSProp's ε 0.01, inside the root               rmsprop_epsilon 0.01 / 640² = 2.4e-8, inside
    initial mean square 1 (TensorFlow)              rmsprop_initial 1 / 640² = 2.4e-6
    learning rate 6e-4 (RMSProp's step has no unit) learning_rate 6e-4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.capabilities import OFF_POLICY_CORRECTED, RECURRENT
from veldt.algorithms.policy_gradient import PolicyGradient, PolicyGradientConfig
from veldt.algorithms.rmsprop import RMSPropConfig
from veldt.algorithms.rollout import Rollout, unroll_forward
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.losses import ValidRows
from veldt.functional.updates import Adam, UpdateRule
from veldt.functional.vtrace import VTraceReturns, vtrace
from veldt.setting_metadata import Unit
from veldt.setting_text import flag

# Ratios that exceed ρ̄ by less than this factor are rounding differences between batches of different size.
_CLIPPED = 1.01


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(RMSPropConfig, PolicyGradientConfig):
    """Settings of V-trace."""

    learning_rate: Annotated[float | str, Unit("per update")] = 6e-4
    """Learning rate: a number, or a schedule such as linear:6e-4:0 or module:function."""
    anneal_learning_rate: bool = True
    """Lower the learning rate, if it is a number, linearly to 0 over the run's steps."""
    gae_lambda: Annotated[float, Unit("per step")] = 1.0
    """λ, the factor on the trace ratios c; 1 gives the n-step V-trace target."""
    max_grad_norm: Annotated[float, Unit("norm")] = 0.0625
    """Upper limit of the norm of the mean gradient (0.0625 is IMPALA's 40 for a sum over 640 steps); 0: no limit."""
    horizon: Annotated[int, Unit("steps")] = 20
    """Steps each env makes between updates."""
    rho_bar: Annotated[float, Unit("ratio")] = 1.0
    """ρ̄: upper clip of the ratio π/μ of an action. It decides which policy is learned."""
    c_bar: Annotated[float, Unit("ratio")] = 1.0
    """c̄: upper clip of the ratios in the trace. It decides how far back errors propagate."""
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    """The update rule."""
    rmsprop_epsilon: Annotated[float, Unit("gradient")] = 2.4e-8
    """ε of RMSProp (in units of gradient² if it is inside the square root)."""
    rmsprop_epsilon_inside: bool = True
    """ε inside the square root (A3C, TensorFlow) or outside (PyTorch)."""
    rmsprop_initial: Annotated[float, Unit("gradient²")] = 2.4e-6
    """Initial value of RMSProp's mean square (more than 0 makes the first updates small)."""
    adam_epsilon: Annotated[float, Unit("gradient")] = 1e-5
    """ε of Adam."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_rmsprop()
        if self.horizon < 1:
            raise UsageError(f"--horizon is {self.horizon}: it must be at least 1 step")
        for name in ("rho_bar", "c_bar", "adam_epsilon"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be more than 0")

    def rule(self) -> UpdateRule:
        """Returns the update rule for these settings."""
        return self.rmsprop() if self.optimiser == "rmsprop" else Adam(epsilon=self.adam_epsilon)

    def unread(self) -> dict[str, str]:
        names = ("rmsprop_decay", "rmsprop_epsilon", "rmsprop_epsilon_inside", "rmsprop_initial")
        unread = ("adam_epsilon",) if self.optimiser == "rmsprop" else names
        return super().unread() | dict.fromkeys(unread, f"--optimiser is {self.optimiser}")


class VTrace(PolicyGradient):
    """One update per rollout, on all of its rows; a batch is a `Rollout` of any envs side by side, from any actor."""

    name = "vtrace"
    capabilities = PolicyGradient.capabilities | {OFF_POLICY_CORRECTED, RECURRENT}
    _config: VTraceConfig

    def __init__(self, config: VTraceConfig, action: ActionSpec) -> None:
        super().__init__(config, action, config.rule())

    def horizon(self, num_envs: int) -> int:
        return self._config.horizon

    def loss(self, forward: Forward, batch: Rollout, progress: float) -> Loss:
        forward = unroll_forward(forward, batch.recurrent)
        parameters_NP, value_N, *_ = forward(batch.observations.rows(None))
        with torch.no_grad():  # used in targets only
            last_value_B = forward(batch.observations.last())[1]
        action_N, valid = batch.action.flatten(0, 1), ValidRows(batch.valid.flatten().float())
        log_prob_N = self.distribution.log_prob(parameters_NP, action_N)
        acted_N = self.distribution.log_prob(batch.extras["policy"].flatten(0, 1), action_N)
        # Padding rows may hold any values; mask them.
        log_ratio_N = valid.masked(log_prob_N.detach() - acted_N)
        returns = self.returns(log_ratio_N.view(batch.reward.shape), value_N, last_value_B, batch)

        policy_loss = valid.mean(-log_prob_N * returns.advantage_TB.flatten())
        value_loss = valid.mean((value_N - returns.target_TB.flatten()).square())
        ent_coef = self.ent_coef(progress)
        entropy = self.entropy(parameters_NP, valid, ent_coef)
        loss = policy_loss + self._config.vf_coef * value_loss - ent_coef * entropy
        clipped_N = (log_ratio_N.exp() > _CLIPPED * self._config.rho_bar).float()
        metrics = {
            "train/policy_loss": policy_loss.detach(),
            "train/value_loss": value_loss.detach(),
            "train/entropy": entropy.detach(),
            "train/value_mean": valid.mean(value_N.detach()),
            "train/rho_mean": valid.mean(returns.rho_TB.flatten()),
            "train/rho_clip_fraction": valid.mean(clipped_N),
        }
        return Loss(loss, metrics, rows=valid.count)

    @torch.no_grad()
    def returns(
        self, log_ratio_TB: Tensor, value_N: Tensor, last_value_B: Tensor, rollout: Rollout
    ) -> VTraceReturns:
        """V-trace targets and advantages from the network's present values of the T B rows and of the B after them."""
        reward_TB, discount_TB, trace_TB = self.learning_signals(rollout)
        return vtrace(
            log_ratio_TB,
            reward_TB,
            torch.cat([value_N.view_as(reward_TB), last_value_B.unsqueeze(0)]),
            discount_TB,
            trace_TB,
            rho_bar=self._config.rho_bar,
            c_bar=self._config.c_bar,
            lambda_=self._config.gae_lambda,
        )
