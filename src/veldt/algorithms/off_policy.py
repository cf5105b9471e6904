"""Settings and base class of the algorithms that learn from a replay buffer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from veldt.algorithms.base import OffPolicy
from veldt.algorithms.groups import TargetNetwork
from veldt.algorithms.schedule_settings import make_schedule
from veldt.algorithms.settings import AlgorithmConfig
from veldt.errors import UsageError
from veldt.functional.updates import UpdateRule
from veldt.replay.settings import NStep
from veldt.setting_metadata import Range, Unit
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(AlgorithmConfig):
    """Settings of all off-policy algorithms."""

    batch_size: Annotated[int, Unit("transitions")] = 32
    """Transitions per update."""
    training_intensity: Annotated[float, Unit("uses")] = 8.0
    """Average number of times each sampled transition is used in updates. It determines the number of updates."""
    horizon: Annotated[int, Unit("steps")] = 0
    """Steps each env makes between optimisation phases; 0 means the fewest that one update needs."""
    learning_starts: Annotated[int, Unit("steps")] = 50_000
    """Steps that are sampled before the first update."""
    learning_rate: Annotated[float | str, Unit("per update"), Range(0.0, above=True)] = 2.5e-4
    """Learning rate: a number, or a schedule such as linear:2.5e-4:0 or module:function."""
    gamma: Annotated[float, Unit("per step")] = 0.99
    """Discount factor γ."""
    n_step: Annotated[int, Unit("steps")] = 1
    """Number of rewards in an n-step return, before the target network's value."""
    target_update_interval: Annotated[int, Unit("steps")] = 10_000
    """Agent steps between updates of the target network; 0 means after every update."""
    tau: Annotated[float, Unit("fraction")] = 1.0
    """Fraction by which the target network moves to the online network: 1 is a copy, less is Polyak averaging."""
    max_grad_norm: Annotated[float, Unit("norm")] = 0.0
    """Upper limit of the gradient's norm; 0 means no limit."""
    clip_rewards: bool = True
    """Learn from rewards clipped to [-1, 1]; reported returns are always raw."""
    terminal_on_life_loss: bool = True
    """Learn from a lost life as from a termination (without a reset of the env)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "learning_starts", "n_step"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        for name in ("horizon", "target_update_interval", "max_grad_norm"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be 0 or more")
        if self.training_intensity <= 0:
            raise UsageError(f"--training-intensity is {self.training_intensity}: it must be more than 0")
        if not 0 <= self.gamma <= 1:
            raise UsageError(f"--gamma is {self.gamma}: it must be in [0, 1]")
        if not 0 < self.tau <= 1:
            raise UsageError(f"--tau is {self.tau}: it must be in (0, 1]")

    def steps_per_phase(self, num_envs: int) -> int:
        """Steps of each env between optimisation phases; if not set, the fewest that one update needs."""
        return self.horizon or math.ceil(self.batch_size / (self.training_intensity * num_envs))

    def updates_per_phase(self, num_envs: int) -> float:
        """Updates per optimisation phase, on average."""
        steps = self.steps_per_phase(num_envs) * num_envs
        return steps * self.training_intensity / self.batch_size

    @property
    def target_updates(self) -> int:
        """Number of updates between updates of the target network."""
        return max(1, round(self.target_update_interval * self.training_intensity / self.batch_size))

    def derived(self, num_envs: int, in_phases: bool) -> list[tuple[str, str, str, str]]:
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
            (
                "scaled learning rate",
                self.scaled_learning_rate(),
                "per update",
                "learning_rate, for this batch",
            ),
        ]

    @property
    def learning_rate_scale(self) -> float:
        """The factor on the learning rate for this batch size."""
        return 1.0

    def scaled_learning_rate(self) -> str:
        """The learning rate for this batch size, for messages."""
        scale = self.learning_rate_scale
        if isinstance(self.learning_rate, str):
            return self.learning_rate if scale == 1.0 else f"{self.learning_rate} x {scale:g}"
        return f"{self.learning_rate * scale:g}"


class ReplayAlgorithm(OffPolicy):
    """See `OffPolicy`: implements the members that follow from settings alone.

    It has one target network, a copy of all parameters. A subclass defines `network`, `act`, `best_action`, `targets`
    and `loss` (or `losses`).
    """

    def __init__(self, config: OffPolicyConfig, rule: UpdateRule) -> None:
        self._config, self.rule = config, rule
        self._rate = make_schedule(config, "learning_rate")
        self.max_grad_norm = config.max_grad_norm
        self.batch_size, self.intensity = config.batch_size, config.training_intensity
        self.learning_starts = config.learning_starts
        self.returns = NStep(config.n_step, config.gamma, config.clip_rewards, config.terminal_on_life_loss)

    @property
    def target_networks(self) -> Mapping[str, TargetNetwork]:
        return {"target": TargetNetwork(self._config.target_updates, self._config.tau)}

    def horizon(self, num_envs: int) -> int:
        return self._config.steps_per_phase(num_envs)

    def learning_rate(self, progress: float, batch: int) -> float:
        return self._rate(progress) * self._config.learning_rate_scale
