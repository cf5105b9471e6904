"""The complete state of a sampler-learner: a synchronous run continues from it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from veldt.envs.action_replay import Unfinished
from veldt.envs.in_process import VectorEnvs
from veldt.errors import ARRAYS_DO_NOT_FIT, CheckpointError
from veldt.exchange.graph import Groups as Groups
from veldt.learning.batch_sources import BatchSource, ReplaySource
from veldt.learning.learner import Learner
from veldt.runs.checkpoint_files import Checkpoint
from veldt.sampling.episodes import EpisodeTracker
from veldt.sampling.sampler import Sampler

if TYPE_CHECKING:  # else on-policy runs would load numba, which takes a third of a second
    from veldt.replay.archive import NewRows, ReplayArchive


@dataclass(frozen=True)
class SnapshotContent:
    """Groups of arrays, plain values, and a replay buffer's new rows. Training does not modify any of it."""

    groups: Groups
    meta: dict[str, Any]
    rows: NewRows | None


@dataclass(frozen=True)
class Snapshot:
    """The components with state. `archive` is None without a replay buffer, or if checkpoints do not include it."""

    learner: Learner
    sampler: Sampler
    envs: VectorEnvs
    episodes: EpisodeTracker
    batch_source: BatchSource
    archive: ReplayArchive | None

    def take(self, states: Mapping[int, bytes]) -> SnapshotContent:
        """Returns the content of a checkpoint, between two phases.

        Schedules and random numbers are functions of counters, so only the counters are stored. Of the envs, it stores
        the first row and, for envs in `states`, the emulator's state; the other envs are rebuilt from the actions of
        their episodes.
        """
        slot = self.envs.trajectory
        rows = {f"observation/{name}": array[: slot.history + 1] for name, array in slot.observation.items()}
        rows |= {name: getattr(slot, name)[0] for name in ("episode_step", "is_last", "episode")}
        if self.sampler.initial_state_BM.numel():
            rows["initial_recurrent_state"] = self.sampler.initial_state_BM.cpu().numpy()
        emulators = {f"state/{b}": np.frombuffer(state, np.uint8) for b, state in states.items()}
        episode_arrays, episode_counts = self.episodes.state()
        groups = {
            "weights": self.learner.weights(),
            "optimiser": self.learner.optimiser_state(),
            "target": self.learner.target_weights(),
            "envs": {name: array.copy() for name, array in rows.items()} | emulators,
            "episodes": episode_arrays,
        }
        meta = {
            "updates": self.learner.updates,
            "phase": self.sampler.phase,
            "episodes": episode_counts,
            "experience": self.batch_source.counters(),
        }
        new_rows = None
        if self.archive is not None:
            new_rows, groups["replay"] = self.archive.capture()
        nonempty = {name: arrays for name, arrays in groups.items() if arrays}
        return SnapshotContent(nonempty, meta, new_rows)

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Restores all state. Returns messages about what could not be continued."""
        groups, meta = checkpoint.groups, checkpoint.meta
        self.learner.load(groups["weights"], groups["optimiser"], groups.get("target", {}))
        self.learner.updates = int(meta["updates"])
        self.sampler.phase = int(meta["phase"])
        self.episodes.load(groups["episodes"], meta["episodes"])
        self.batch_source.load(meta["experience"])
        return [*self._restore_replay(checkpoint), *self._restore_envs(groups["envs"])]

    def _restore_replay(self, checkpoint: Checkpoint) -> list[str]:
        if not isinstance(self.batch_source, ReplaySource):
            return []
        segments = checkpoint.meta.get("replay")
        if self.archive is not None and segments is not None:
            self.archive.restore(segments, checkpoint.groups["replay"])
            return []
        steps = self.batch_source.refill(checkpoint.step)
        return [replay_is_empty(steps, has_rows=segments is not None)]

    def _restore_envs(self, saved: Mapping[str, np.ndarray]) -> list[str]:
        slot = self.envs.trajectory
        try:
            for name, array in slot.observation.items():
                array[: slot.history + 1] = saved[f"observation/{name}"]
            for name in ("episode_step", "is_last", "episode"):
                getattr(slot, name)[0] = saved[name]
            if self.sampler.initial_state_BM.numel():
                self.sampler.initial_state_BM.copy_(torch.from_numpy(saved["initial_recurrent_state"]))
        except ARRAYS_DO_NOT_FIT as error:
            raise CheckpointError(f"the checkpoint's envs are not this run's: {error}") from None
        unfinished = {}
        for b in range(slot.width):
            state = saved.get(f"state/{b}")
            if state is not None:
                unfinished[b] = Unfinished(state=state.tobytes())
            else:
                actions = self.episodes.actions(b) if slot.episode_step[0, b] else None
                none = np.empty((0, *slot.spec.action.shape), slot.spec.action.dtype)
                unfinished[b] = Unfinished(actions=none if actions is None else actions)
        return self.envs.rebuild(unfinished)


def replay_is_empty(steps: int, has_rows: bool) -> str:
    """Returns a sentence for the user of a resumed run: learning waits for `steps` steps.

    Args:
        has_rows: whether the checkpoint has rows that the run does not take.
    """
    why = "by --checkpoint-replay none" if has_rows else "the checkpoint holds none"
    return (
        f"the replay buffer is empty ({why}): acting continues, and so does learning when {steps:,} steps have filled "
        "it anew"
    )
