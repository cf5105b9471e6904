"""Everything a synchronous run needs to continue as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veldt.errors import CheckpointError
from veldt.runs.checkpoint_files import Checkpoint
from veldt.simulators.in_process import Simulators
from veldt.simulators.replay import Unfinished
from veldt.systems.episodes import EpisodeBook
from veldt.systems.learner import Learner
from veldt.systems.monitor import Monitor
from veldt.systems.sampler import Sampler

Groups = dict[str, dict[str, np.ndarray]]


def take(
    learner: Learner,
    sampler: Sampler,
    simulators: Simulators,
    book: EpisodeBook,
    monitor: Monitor,
    states: Mapping[int, bytes],
) -> tuple[Groups, dict[str, Any]]:
    """The groups of arrays and the plain values of a checkpoint, as they were between two phases.

    Schedules and random numbers are functions of counters, so counters are all that is kept of them. Simulators are
    their first row and, where `states` has it, an emulator's state; the others are rebuilt from the actions of their
    episodes.
    """
    slot = simulators.trajectory
    rows = {f"observation/{name}": array[: slot.history + 1] for name, array in slot.observation.items()}
    rows |= {name: getattr(slot, name)[0] for name in ("age", "ended", "episode")}
    emulators = {f"state/{b}": np.frombuffer(state, np.uint8) for b, state in states.items()}
    episodes, book_values = book.state()
    groups = {
        "weights": learner.weights(),
        "optimiser": learner.rule_state(),
        "simulators": {name: array.copy() for name, array in rows.items()} | emulators,
        "episodes": episodes,
    }
    meta = {
        "updates": learner.updates,
        "phase": sampler.phase,
        "book": book_values,
        "monitor": monitor.counters(),
    }
    return groups, meta


def restore(
    checkpoint: Checkpoint, learner: Learner, sampler: Sampler, simulators: Simulators, book: EpisodeBook
) -> list[str]:
    """Puts everything back. Returns sentences about simulators that could not be continued."""
    groups, meta, slot = checkpoint.groups, checkpoint.meta, simulators.trajectory
    learner.load(groups["weights"], groups["optimiser"])
    learner.updates = sampler.version = meta["updates"]
    sampler.phase = meta["phase"]
    book.load(groups["episodes"], meta["book"])
    saved = groups["simulators"]
    try:
        for name, array in slot.observation.items():
            array[: slot.history + 1] = saved[f"observation/{name}"]
        for name in ("age", "ended", "episode"):
            getattr(slot, name)[0] = saved[name]
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's simulators are not this run's: {error}") from None
    unfinished = {}
    for b in range(slot.width):
        state = saved.get(f"state/{b}")
        if state is not None:
            unfinished[b] = Unfinished(state=state.tobytes())
        else:
            actions = book.actions(b) if slot.age[0, b] else None
            none = np.empty((0, *slot.spec.action.shape), slot.spec.action.dtype)
            unfinished[b] = Unfinished(actions=none if actions is None else actions)
    return simulators.rebuild(unfinished)
