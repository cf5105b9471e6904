"""Env settings: the number of envs, where they run, and the handling of resets and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from veldt.errors import UsageError
from veldt.setting_metadata import Unit, check_values
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class AtariConfig:
    """Native Atari (environments named ALE/...)."""

    preprocessing: Literal["104x80", "84x84"] = "104x80"
    """Frames: 104x80 crops one row above and below and averages 2x2; 84x84 resizes by area."""
    frame_skip: Annotated[int, Unit("frames/step")] = 4
    """Emulator frames per agent step; the observation is the maximum of the last two (with 1, the only one)."""
    frame_stack: Annotated[int, Unit("frames")] = 4
    """Number of frames that the network sees at once."""
    no_ops: Annotated[int, Unit("frames")] = 30
    """Each reset plays a random number of no-ops, up to this many."""
    sticky_actions: Annotated[float, Unit("probability")] = 0.0
    """Probability, at each frame, of repeating the previous action instead (0.25 in ALE's v5 protocol)."""
    full_action_space: bool = False
    """All 18 actions instead of the game's minimal set."""
    max_episode_steps: Annotated[int, Unit("steps")] = 27_000
    """Episodes are truncated (with bootstrap) after this many steps: 27,000 steps are 108,000 frames."""

    def __post_init__(self) -> None:
        check_values(self)
        for name in ("frame_skip", "frame_stack", "max_episode_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.no_ops < 0:
            raise UsageError(f"--no-ops is {self.no_ops}: it must be 0 or more")
        if not 0 <= self.sticky_actions < 1:
            raise UsageError(f"--sticky-actions is {self.sticky_actions}: it must be in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """How many envs run, where, and what happens at resets and failures."""

    env_backend: Literal["auto", "in-process", "workers", "atari"] = "auto"
    """Where envs run; auto measures this environment on this machine and reports its choice."""
    num_envs: Annotated[int, Unit("envs")] = 16
    """Number of envs that step together (the batch dimension)."""
    processes: Annotated[int, Unit("processes")] = 0
    """Env processes; 0 chooses by the number of usable cores. Not with --env-backend in-process."""
    alternate: Literal["auto", "on", "off"] = "auto"
    """Two alternating groups: one steps while the other waits for its actions. auto takes them where inference has an
    accelerator, or a core that no env process takes."""
    resets: Literal["mid-batch", "wait"] = "mid-batch"
    """When finished episodes are reset: at once, or in the optimisation pause (masked until then)."""
    random_start_steps: Annotated[int, Unit("steps")] = 0
    """At the start, each env plays a random number of random steps, up to this many."""
    on_env_error: Literal["stop", "restart"] = "stop"
    """What happens when an environment fails: the run ends with the error, or that env is restarted."""
    env_timeout: Annotated[float, Unit("seconds")] = 60.0
    """A step or reset that takes longer counts as hung."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.num_envs < 1:
            raise UsageError(f"--num-envs is {self.num_envs}: it must be at least 1")
        if self.processes < 0 or self.processes > self.num_envs:
            raise UsageError(
                f"--processes is {self.processes}: it must be between 0 (automatic) and the number of envs, "
                f"{self.num_envs}"
            )
        if self.processes and self.env_backend == "in-process":
            raise UsageError(
                f"--processes is {self.processes}, and --env-backend in-process has none: leave one of them out"
            )
        if self.env_timeout <= 0:
            raise UsageError(f"--env-timeout is {self.env_timeout}: it must be more than 0 seconds")
        if self.random_start_steps < 0:
            raise UsageError(f"--random-start-steps is {self.random_start_steps}: it must be 0 or more")
        if self.alternate == "on" and self.num_envs < 2:
            raise UsageError("--alternate on needs at least 2 envs, to form two groups")
