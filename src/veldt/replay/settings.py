"""Settings of the replay buffer: its size, the sampling, the compression, and the n-step return. Without numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from veldt.envs.spec import ArraySpec
from veldt.errors import UsageError
from veldt.replay.sampling_registry import STRATEGIES
from veldt.setting_metadata import Unit, check_values
from veldt.setting_text import flag


def is_compressed(field: ArraySpec) -> bool:
    """Returns whether `compress_frames` applies to this field: only to images, where it pays off."""
    return field.dtype == "uint8" and len(field.shape) >= 2


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """The replay buffer of off-policy algorithms."""

    buffer_size: Annotated[int, Unit("transitions")] = 1_000_000
    """Maximum number of transitions, over all envs; new ones replace the oldest. The last observation of each episode
    takes the place of one."""
    replay: str = "uniform"
    """How transitions are sampled: uniform; prioritised, in proportion to the network's last error on them; or a
    registered strategy's name."""
    priority_exponent: Annotated[float, Unit("exponent")] = 0.6
    """α of prioritised replay: 0 samples uniformly, 1 in proportion to the priority (Schaul et al. 2016)."""
    importance_exponent: Annotated[float, Unit("exponent")] = 0.4
    """β of the importance weights at the run's start."""
    importance_exponent_end: Annotated[float, Unit("exponent")] = 1.0
    """β at the run's end, reached linearly with the run's steps (those of all actors, for each learner); 1 corrects
    fully for the prioritised sampling."""
    compress_frames: bool = False
    """Store frames compressed: takes a fraction of the RAM, and much more computation when batches are sampled."""

    def __post_init__(self) -> None:
        check_values(self)
        STRATEGIES.find(self.replay, f"--replay is '{self.replay}'")
        if self.buffer_size < 1:
            raise UsageError(f"--buffer-size is {self.buffer_size}: it must be at least 1")
        for name in ("priority_exponent", "importance_exponent", "importance_exponent_end"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be in [0, 1]")

    @property
    def is_weighted(self) -> bool:
        """Whether rows may be drawn with different probabilities, and have importance weights."""
        return self.replay != "uniform"

    @property
    def uses_priorities(self) -> bool:
        """Whether the sampling strategy gets new priorities of sampled rows from the learner."""
        return STRATEGIES[self.replay].uses_priorities

    def annealed_settings(self) -> list[str]:
        """Returns the settings whose effect changes over the run's steps, so that it depends on their number."""
        changes = self.is_weighted and self.importance_exponent != self.importance_exponent_end
        return ["importance_exponent_end"] if changes else []

    def beta(self, progress: float) -> float:
        """Returns β at this fraction of the training budget."""
        return self.importance_exponent + (self.importance_exponent_end - self.importance_exponent) * progress


@dataclass(frozen=True)
class NStep:
    """How a transition's return is computed from the rows that follow it.

    `steps` is n, `gamma` is γ. `clip_rewards` clips rewards to [-1, 1]; with `terminal_on_life_loss` a lost life ends
    the return as a terminal step does.
    """

    steps: int
    gamma: float
    clip_rewards: bool
    terminal_on_life_loss: bool
