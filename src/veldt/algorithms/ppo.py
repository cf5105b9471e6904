"""Proximal policy optimisation, the clipped version (Schulman et al. 2017; Stooke & Abbeel, section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch

from veldt.algorithms.base import Forward, Loss
from veldt.algorithms.policy_gradient import PolicyGradient, PolicyGradientConfig
from veldt.algorithms.rollout import Batch, Rollout
from veldt.algorithms.schedule_settings import make_schedule
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.functional.losses import ValidRows, approximate_kl, clipped_surrogate, clipped_value_error
from veldt.functional.updates import Adam
from veldt.runtime.devices import to_device
from veldt.setting_metadata import Range, Unit
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class PPOConfig(PolicyGradientConfig):
    """Settings of PPO."""

    gae_lambda: Annotated[float, Unit("per step")] = 0.95
    """λ of generalised advantage estimation."""
    batch_size: Annotated[int, Unit("steps")] = 1024
    """Rollout size: steps of all envs together between optimisation phases; the horizon is this divided by num_envs."""
    epochs: Annotated[int, Unit("passes")] = 4
    """Passes over the rollout in each optimisation phase."""
    minibatches: Annotated[int, Unit("updates")] = 4
    """Minibatches (updates) in each pass."""
    clip: Annotated[float | str, Unit("ratio"), Range(0.0, above=True)] = 0.1
    """Clip range ε of the objective: a number, or a schedule such as linear:0.2:0.05 or module:function."""
    anneal_clip: bool = False
    """Lower the clip range, if it is a number, linearly to 0 over the run's steps."""
    clip_values: bool = True
    """Clip the value to within ε of its old value (in OpenAI's ppo2, not in the paper)."""
    normalise_advantages: bool = True
    """Normalise the advantages of each minibatch to mean 0 and variance 1."""
    adam_epsilon: Annotated[float, Unit("gradient")] = 1e-5
    """ε of Adam."""
    adam_beta_1: Annotated[float, Unit("per update")] = 0.9
    """β₁ of Adam: the decay of its mean gradient; 0: no momentum."""
    adam_epsilon_hat: bool = False
    """Add ε to the root of the second moment itself (Kingma & Ba's ε̂; TensorFlow; appendix B of Stooke & Abbeel), or to
    that of the moment corrected for its bias (their algorithm 1; PyTorch). The former makes early updates smaller."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.batch_size % self.minibatches:
            raise UsageError(
                f"--batch-size {self.batch_size} does not divide into --minibatches {self.minibatches}: "
                f"choose a multiple of {self.minibatches}"
            )
        if self.batch_size == self.minibatches and self.normalise_advantages:
            raise UsageError(
                f"--batch-size {self.batch_size} in --minibatches {self.minibatches} are single steps, and the "
                "advantage of a single one is normalised to 0, so that the policy would not learn: take fewer "
                "--minibatches, or --no-normalise-advantages"
            )
        if not 0 <= self.adam_beta_1 < 1:
            raise UsageError(f"--adam-beta-1 is {self.adam_beta_1}: it must be in [0, 1)")
        if self.adam_epsilon <= 0:
            raise UsageError(f"--adam-epsilon is {self.adam_epsilon}: it must be more than 0")

    def unread(self) -> dict[str, str]:
        falls = {"anneal_clip": f"--clip is a schedule, {self.clip}"} if isinstance(self.clip, str) else {}
        return super().unread() | falls

    def annealed_settings(self) -> list[str]:
        falls = self.anneal_clip and not isinstance(self.clip, str)
        return [*super().annealed_settings(), *(["clip"] if falls else [])]


class PPO(PolicyGradient):
    """Several passes over each rollout, in shuffled minibatches."""

    name = "ppo"
    _config: PPOConfig

    def __init__(self, config: PPOConfig, action: ActionSpec) -> None:
        rule = Adam(config.adam_beta_1, epsilon=config.adam_epsilon, epsilon_hat=config.adam_epsilon_hat)
        super().__init__(config, action, rule)
        self._clip = make_schedule(config, "clip", falls=config.anneal_clip)

    def horizon(self, num_envs: int) -> int:
        if self._config.batch_size % num_envs:
            fits = math.lcm(num_envs, self._config.minibatches)
            below = max(fits, self._config.batch_size // fits * fits)
            raise UsageError(
                f"--batch-size {self._config.batch_size} does not divide among {num_envs} envs: the horizon would be "
                f"{self._config.batch_size / num_envs:g} steps; use --batch-size {below} or another multiple of {fits}"
            )
        return self._config.batch_size // num_envs

    def update_rows(self, num_envs: int) -> int:
        return self._config.batch_size // self._config.minibatches

    def minibatches(self, forward: Forward, rollout: Rollout, generator: torch.Generator) -> Iterator[Batch]:
        batch = self.targets(forward, rollout)
        device = batch.action.device
        for _ in range(self._config.epochs):
            order_N = to_device(torch.randperm(len(batch.action), generator=generator), device)
            yield from batch.select(order_N).split(self._config.minibatches)

    def loss(self, forward: Forward, batch: Batch, progress: float) -> Loss:
        config = self._config
        clip = self._clip(progress)
        valid = ValidRows(batch.valid)
        parameters_NP, value_N, *_ = forward(batch.observation())
        log_ratio_N = self.distribution.log_prob(parameters_NP, batch.action) - batch.log_prob
        # The ratio of a masked row can be infinite, and masking its loss afterwards would give a NaN gradient.
        log_ratio_N = valid.masked(log_ratio_N)
        advantage_N = valid.normalise(batch.advantage) if config.normalise_advantages else batch.advantage
        policy_loss = valid.mean(clipped_surrogate(log_ratio_N, advantage_N, clip))
        if config.clip_values:
            value_error_N = clipped_value_error(value_N, batch.value, batch.target, clip)
        else:
            value_error_N = (value_N - batch.target).square()
        value_loss = valid.mean(value_error_N)
        ent_coef = self.ent_coef(progress)
        entropy = self.entropy(parameters_NP, valid, ent_coef)
        loss = policy_loss + config.vf_coef * value_loss - ent_coef * entropy
        log_ratio_N = log_ratio_N.detach()
        clipped_N = ((log_ratio_N.exp() - 1.0).abs() > clip).float()
        metrics = {
            "train/policy_loss": policy_loss.detach(),
            "train/value_loss": value_loss.detach(),
            "train/entropy": entropy.detach(),
            "train/value_mean": valid.mean(value_N.detach()),
            "train/approx_kl": valid.mean(approximate_kl(log_ratio_N)),
            "train/clip_fraction": valid.mean(clipped_N),
        }
        return Loss(loss, metrics, rows=valid.count)
