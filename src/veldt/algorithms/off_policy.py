"""What algorithms that learn from a replay buffer share: how much they learn from each datum, and from what return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from veldt.algorithms.base import OffPolicy, TargetUpdate
from veldt.errors import UsageError
from veldt.functional.updates import UpdateRule
from veldt.replay.n_step import NStep
from veldt.setting_metadata import Unit, check_values, flag


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """Settings that they all have."""

    batch_size: Annotated[int, Unit("transitions")] = 32
    """Transitions of an update."""
    training_intensity: Annotated[float, Unit("uses")] = 8.0
    """Times each sampled transition is used in updates, on average. The number of updates follows from it."""
    horizon: Annotated[int, Unit("steps")] = 0
    """Steps each env makes between optimisation phases; 0 takes as few as one update needs."""
    learning_starts: Annotated[int, Unit("steps")] = 50_000
    """Steps that are only sampled, at the start."""
    learning_rate: Annotated[float, Unit("per update")] = 2.5e-4
    """Step size."""
    gamma: Annotated[float, Unit("per step")] = 0.99
    """γ."""
    n_step: Annotated[int, Unit("steps")] = 1
    """Rewards in a return before it goes on with the target network's value."""
    target_update_interval: Annotated[int, Unit("steps")] = 10_000
    """Agent steps between moves of the target network; 0 is every update."""
    tau: Annotated[float, Unit("fraction")] = 1.0
    """How far the target network moves towards the learning one: 1 is a copy, less is Polyak averaging."""
    max_grad_norm: Annotated[float, Unit("norm")] = 0.0
    """Largest norm of the gradient; 0 means no limit."""
    clip_rewards: bool = True
    """Learn from rewards clipped to [-1, 1]; scores are always raw."""
    terminal_on_life_loss: bool = True
    """Learn from a lost life as from an episode's end (without resetting the game)."""

    def __post_init__(self) -> None:
        check_values(self)
        for name in ("batch_size", "learning_starts", "n_step"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        for name in ("horizon", "target_update_interval", "max_grad_norm"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be 0 or more")
        for name in ("training_intensity", "learning_rate"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be more than 0")
        if not 0 <= self.gamma <= 1:
            raise UsageError(f"--gamma is {self.gamma}: it must be in [0, 1]")
        if not 0 < self.tau <= 1:
            raise UsageError(f"--tau is {self.tau}: it must be in (0, 1]")

    def steps_per_phase(self, num_envs: int) -> int:
        """Steps each env makes between optimisation phases: as few as one update needs, if not given."""
        return self.horizon or math.ceil(self.batch_size / (self.training_intensity * num_envs))

    def updates_per_phase(self, num_envs: int) -> float:
        """Updates of an optimisation phase, on average."""
        steps = self.steps_per_phase(num_envs) * num_envs
        return steps * self.training_intensity / self.batch_size

    @property
    def target_updates(self) -> int:
        """Updates between moves of the target network."""
        return max(1, round(self.target_update_interval * self.training_intensity / self.batch_size))

    def derived(self, num_envs: int, in_phases: bool) -> list[tuple[str, str, str, str]]:
        """What follows from the settings, for `veldt recipes`: name, value, unit, from what.

        Args:
            in_phases: whether acting and learning take turns.
        """
        phases = [
            (
                "steps per phase",
                f"{self.steps_per_phase(num_envs):,}",
                "steps/env",
                "batch / (training_intensity x num_envs), or horizon",
            ),
            (
                "updates per phase",
                f"{self.updates_per_phase(num_envs):g}",
                "updates",
                "training_intensity x steps / batch",
            ),
        ]
        return [
            *(phases if in_phases else []),
            (
                "target moves every",
                f"{self.target_updates:,}",
                "updates",
                "target_update_interval x training_intensity / batch",
            ),
            ("step size", f"{self.scaled_learning_rate():g}", "per update", "learning_rate, for this batch"),
        ]

    def scaled_learning_rate(self) -> float:
        """The step size of this batch."""
        return self.learning_rate

    def unread(self) -> dict[str, str]:
        """Settings without effect beside the others, and why."""
        return {}


class ReplayAlgorithm(OffPolicy):
    """See `OffPolicy`: the members that are only settings."""

    def __init__(self, config: OffPolicyConfig, rule: UpdateRule) -> None:
        self._config, self.rule = config, rule
        self.max_grad_norm = config.max_grad_norm
        self.batch_size, self.intensity = config.batch_size, config.training_intensity
        self.learning_starts = config.learning_starts
        self.returns = NStep(config.n_step, config.gamma, config.clip_rewards, config.terminal_on_life_loss)
        self.target = TargetUpdate(config.target_updates, config.tau)

    def horizon(self, num_envs: int) -> int:
        return self._config.steps_per_phase(num_envs)

    def update_rows(self, num_envs: int) -> int:
        return self.batch_size

    def learning_rate(self, progress: float, batch: int) -> float:
        return self._config.scaled_learning_rate()

    def first_priorities(
        self, taken_N: Tensor, reward_N: Tensor, discount_N: Tensor, best_N: Tensor
    ) -> Tensor:
        """The size of the error, of those that regress on values."""
        return (reward_N + discount_N * best_N - taken_N).abs()
