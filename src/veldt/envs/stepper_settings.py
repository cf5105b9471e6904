"""What a stepper must know besides its slot: the environment, the settings of envs, and the episodes' seeds."""

from __future__ import annotations

from dataclasses import dataclass

from veldt.envs.seeding import episode_seed
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import EnvSource


@dataclass(frozen=True)
class StepperSettings:
    """All settings of a stepper besides its slot; sent to worker processes.

    `first` is the index in the run of this process's first env; env indices elsewhere in this package are local.
    Seeds derive from `run_seed` and the index in the run, so that no two envs of a run play the same episodes.
    `seeds` are the given seeds of the first episodes of each env of this process.
    """

    source: EnvSource
    run_seed: int
    envs: EnvConfig
    atari: AtariConfig
    first: int = 0
    seeds: tuple[tuple[int, ...], ...] = ()

    def seed(self, b: int, episode: int) -> int:
        """Returns the seed with which env `b` resets its `episode`-th episode."""
        given = self.seeds[b] if self.seeds else ()
        return (
            given[episode] if episode < len(given) else episode_seed(self.run_seed, self.first + b, episode)
        )
