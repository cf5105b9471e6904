"""A unit as a role: it samples and learns beside others, counts its steps, and says what happened."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from veldt.algorithms.base import Loss
from veldt.exchange.rate_limiter import Pace
from veldt.learning.snapshot import Groups
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.directory import RunDirectory
from veldt.runtime.cores import take_share_of_cores, worker_cores
from veldt.runtime.devices import nth_device
from veldt.runtime.roles import Control, Fellows
from veldt.systems.planning.run_plan import Assembly
from veldt.systems.roles.episode_messages import say_games
from veldt.systems.roles.sampler_learner import Ties, Unit, UnitPlace
from veldt.systems.roles.update_metrics import UpdateFigures
from veldt.tracking.stage_clock import StageClock

_WAIT_S = 0.02  # seconds between looks whether there is something to do
_LOOK_S = 0.005  # seconds between looks whether a checkpoint is complete
_SAY_S = 1.0  # seconds between messages about how it goes


@dataclass(frozen=True)
class UnitPlan:
    """Unit `rank` of as many as there are learners.

    Args:
        assembly: the run's, with a network that travels.
        run: the run's directory, whose newest checkpoint it goes on from.
    """

    assembly: Assembly
    rank: int
    run: Path | None

    @property
    def group(self) -> str:
        """What its replay memory is called in checkpoints."""
        return f"unit-{self.rank}"


class Now(NamedTuple):
    """What is to be done, at one moment between two phases: by this unit or, where they go together, by all.

    `steps` are done by all units, `done` by those who share batches with this one; `snapshot` is wanted (0: none).
    """

    steps: int
    done: int
    stops: bool
    acts: bool
    snapshot: int


class UnitRole(ABC):
    """Phase after phase until it is told to stop; the kinds say what units have in common, and how they agree.

    `own_groups` are the groups of a unit's snapshot that each has for itself.
    """

    own_groups: tuple[str, ...] = ("simulators", "episodes", "replay")

    def __init__(
        self,
        control: Control,
        plan: UnitPlan,
        pace: Pace,
        place: UnitPlace,
        ties: Ties,
        own: Checkpoint | None,
    ) -> None:
        self._control, self._plan, self._pace, self._rank = control, plan, pace, plan.rank
        self._place, self._clock, self._figures = place, StageClock(), UpdateFigures()
        self._phantoms, self._said_at, self._said_snapshot = 0, time.monotonic(), 0
        self._writer = BackgroundWriter()
        config = plan.assembly.config
        keeps = plan.run is not None and config.run.checkpoint_replay == "full"
        archive = RunDirectory(plan.run).replay / plan.group if keeps and plan.run is not None else None
        assembly = _placed(plan.assembly, plan.rank, control.fellows)
        self._unit = Unit(assembly, place, self._clock, archive, self._note, ties)
        try:
            for text in self._unit.begin(own, int(pace.steps_A[plan.rank])):
                self._note(text, "resume")
        except BaseException:
            self._unit.close()
            raise

    def run(self) -> None:
        """Until it is told to stop."""
        try:
            while not (now := self.agreed()).stops:
                self._control.beat()
                if now.snapshot not in (0, self._said_snapshot):
                    self._said_snapshot = now.snapshot
                    self._say_part(now)
                if now.acts:
                    self._act_and_learn(now)
                else:
                    self._control.sleep(_WAIT_S)
                self._say_how_it_goes(is_due=time.monotonic() - self._said_at > _SAY_S)
            self._say_how_it_goes(is_due=True)
        finally:
            self._unit.close()

    @abstractmethod
    def agreed(self) -> Now:
        """What is to be done."""

    @abstractmethod
    def after_phase(self) -> None:
        """Called when a phase is over."""

    @abstractmethod
    def before_part(self) -> None:
        """Called before its part of a checkpoint is taken."""

    @abstractmethod
    def common(self, groups: Groups) -> Groups:
        """Groups that a checkpoint has once for all units, from those of the first one's snapshot."""

    def exchange_figures(self) -> dict[str, float]:
        """Figures of what units have in common."""
        return {}

    def _act_and_learn(self, now: Now) -> None:
        unit, pace = self._unit, self._pace

        def updated(loss: Loss, lag: float, rate: float) -> None:
            pace.updates_L[self._rank] = unit.learner.updates
            self._figures.add(loss.figures, np.array([lag]), rate)
            self._control.beat()

        phase = unit.phase(now.steps, now.done, updated, self._finish_writing)
        pace.steps_A[self._rank] += phase.steps
        self._phantoms += phase.phantoms
        if phase.games:
            say_games(self._control, phase.games, self._place.seed, unit.first)
        for text in unit.simulators.notes():
            self._note(text, "restart")
        self.after_phase()

    def _say_how_it_goes(self, *, is_due: bool) -> None:
        if not is_due:
            return
        self._said_at = time.monotonic()
        self._control.say(
            "actor",
            attempt=self._control.attempt,
            phantoms=self._phantoms,
            simulator_restarts=self._unit.restarts,
        )
        if self._figures.has_any:
            self._control.say(
                "figures",
                **self._figures.taken(),
                updates=self._unit.learner.version,
                seconds=self._clock.seconds,
                experience=self._unit.figures(self._pace.steps) | self.exchange_figures(),
            )

    def _say_part(self, now: Now) -> None:
        """Its part of a snapshot, when its replay memory's is on the disk."""
        self._say_how_it_goes(is_due=True)  # what comes later is not in the checkpoint
        self.before_part()
        taken = self._unit.snapshot.take(self._unit.simulators.save())
        segments: list[dict[str, Any]] = []
        if taken.rows is not None and self._unit.archive is not None:
            write, rows = self._unit.archive.write, taken.rows
            self._writer.start(lambda: segments.extend(write(rows)))
            self._finish_writing()
        groups = self.common(taken.groups) if self._rank == 0 else {}
        groups |= {
            f"{name}-{self._rank}": taken.groups[name] for name in self.own_groups if name in taken.groups
        }
        arrays = {f"{group}:{name}": array for group, part in groups.items() for name, array in part.items()}
        meta = taken.meta | {"seed": self._place.seed, "steps": now.done}
        own_steps = int(self._pace.steps_A[self._rank])
        replay = {"group": self._plan.group, "segments": segments} if taken.rows is not None else {}
        updates = self._unit.learner.updates
        self._control.say(
            "part",
            arrays,
            number=now.snapshot,
            rank=self._rank,
            updates=updates,
            steps=own_steps,
            unit=meta,
            **replay,
        )
        # Of units that go on bit for bit from a checkpoint, none says anything more before it is complete.
        while self._place.joint and self._control.snapshot == now.snapshot and not self._control.stopping:
            self._control.beat()
            self._control.sleep(_LOOK_S)

    def _finish_writing(self) -> None:
        while not self._writer.is_done:
            self._control.beat()
            self._control.sleep(_WAIT_S)
        self._writer.finish()

    def _note(self, text: str, about: str = "note") -> None:
        self._control.say("note", about=about, text=text)


def own_part(checkpoint: Checkpoint | None, plan: UnitPlan) -> Checkpoint | None:
    """What of a checkpoint is this unit's, as a unit that is alone would have written it."""
    if checkpoint is None:
        return None
    meta = checkpoint.meta["units"][str(plan.rank)]
    ending = f"-{plan.rank}"
    own = {
        name.removesuffix(ending): arrays
        for name, arrays in checkpoint.groups.items()
        if name.endswith(ending)
    }
    if (segments := checkpoint.meta["shards"].get(plan.group)) is not None:
        meta = meta | {"replay": segments}
    return dataclasses.replace(checkpoint, step=meta["steps"], meta=meta, groups=checkpoint.groups | own)


def _placed(assembly: Assembly, rank: int, fellows: Fellows) -> Assembly:
    """With the accelerator of this rank, if there are any, and with its share of the cores of this machine."""
    device = nth_device(str(assembly.device), rank)
    take_share_of_cores(fellows.index, fellows.count)
    chosen = assembly.plan
    cores = tuple(worker_cores(chosen.processes, int(device.type == "cuda")))
    return dataclasses.replace(assembly, device=device, plan=dataclasses.replace(chosen, cores=cores))
