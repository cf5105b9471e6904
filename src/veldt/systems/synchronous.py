"""The synchronous system: sample, optimise, sample (Stooke & Abbeel, sections 4.1 and 4.2).

    simulators ==rows==> sampler ==rollout==> algorithm ==minibatches==> learner ==gradient==> edge
        ^                   |                                               |
        +------actions------+ <-----------------same parameters-------------+

One process holds sampler and learner; simulators run beside it. Nothing is ever older than one optimisation phase: the
policy that acts is the one that has just been updated, and the lag is the updates since in the same phase (0 for A2C).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from veldt.errors import SimulatorError, VeldtError
from veldt.exchange.gradients import OneLearner
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.progress import Progress
from veldt.runtime.memory import keep_freed_memory
from veldt.simulators.seeding import SHUFFLE, derive_seed
from veldt.simulators.simulator import StepperSettings
from veldt.systems import snapshot
from veldt.systems.assembly import Assembly
from veldt.systems.episodes import EpisodeBook
from veldt.systems.learner import Learner
from veldt.systems.monitor import Monitor
from veldt.systems.sampler import Sampler
from veldt.systems.stages import StageClock

_AT_ONCE_AFTER = 1.0  # seconds between the first request to stop and one that means it


@dataclass(frozen=True)
class Outcome:
    """Why a run stopped ("steps", "until" or "interrupted"), and its summary."""

    reason: str
    summary: dict[str, Any]


class Synchronous:
    """The system's parts, wired. `checkpoint` is where to go on from, or None to begin."""

    def __init__(
        self, assembly: Assembly, directory: RunDirectory, progress: Progress, checkpoint: Checkpoint | None
    ) -> None:
        keep_freed_memory()
        self._config = config = assembly.config
        self._assembly = assembly
        self._clock = StageClock()
        self._algorithm = assembly.algorithm()
        network, parameters = assembly.network()
        forward = assembly.forward(network, progress.note)
        self._forward = forward
        self._learner = Learner(self._algorithm, forward, parameters, OneLearner())
        settings = StepperSettings(assembly.source, config.run.seed, config.simulation, config.atari)
        self._simulators = assembly.simulators(
            settings, assembly.horizon, lambda b, t: self._book.actions_until(self._slot, b, t)
        )
        try:
            self._slot = self._simulators.trajectory
            prefixes = {} if checkpoint else self._simulators.start()
            self._book = EpisodeBook(self._slot.width, prefixes)
            self._sampler = Sampler(
                self._simulators,
                self._algorithm,
                forward,
                assembly.device,
                config.run.seed,
                self._clock,
                inference=assembly.infer_threads,
                cores=assembly.inference_cores,
            )
            counters = checkpoint.meta["monitor"] if checkpoint else None
            frames = assembly.spec.frames_per_step
            self._monitor = Monitor(config, directory, self._book, self._clock, progress, frames, counters)
            self._store = CheckpointStore(directory.checkpoints, config.run.keep_checkpoints)
            if checkpoint:
                self._restore(checkpoint)
            self._begins = checkpoint is None
            self._saved_at = self._monitor.steps
        except BaseException:
            self._simulators.close()
            raise

    def run(self) -> Outcome:
        """Trains until the steps are done, the score is reached, or a signal asks to stop."""
        try:
            with stop_requested() as stop:
                reason = self._reason(stop)
                if self._begins:
                    self._save()  # from here on there is always something to resume
                while reason is None:
                    learning_rate = self._phase_or_save()
                    reason = self._reason(stop)
                    self._monitor.log(learning_rate, self._learner.updates, force=reason is not None)
                    if reason or self._monitor.steps - self._saved_at >= self._config.run.checkpoint_every:
                        self._save()
            return Outcome(reason, self._monitor.summary(reason))
        finally:
            try:
                self._simulators.close()
            finally:
                self._monitor.close()

    def _reason(self, stop: threading.Event) -> str | None:
        """Why to stop now, if there is a reason."""
        config = self._config.run
        if config.until is not None and self._book.reached(config.until):
            if self._monitor.solved_at_seconds is None:
                self._monitor.solved_at_seconds = self._monitor.seconds
            return "until"
        if self._monitor.steps >= config.steps:
            return "steps"
        return "interrupted" if stop.is_set() else None

    def _phase_or_save(self) -> float:
        """A phase; if an environment fails in it, the state before it is kept for when that is mended."""
        try:
            return self._phase()
        except SimulatorError as error:
            if self._monitor.steps > self._saved_at:
                try:
                    self._save({})  # without states of emulators, which have gone on since
                except VeldtError as also:
                    raise error from also
            raise

    def _phase(self) -> float:
        """One rollout and the optimisation on it. Returns the learning rate used."""
        config, slot = self._config.run, self._slot
        progress = min(1.0, self._monitor.steps / config.steps)
        rollout = self._sampler.sample()
        acted = float(slot.version.mean())
        waits = self._config.simulation.resets == "wait"
        if waits:
            self._simulators.reset_ended()  # goes on in the workers while this process learns
        learning_rate = self._algorithm.learning_rate(progress, slot.steps * slot.width)
        with self._clock("train"):
            self._assembly.train_threads()
            generator = torch.Generator().manual_seed(derive_seed(config.seed, SHUFFLE, self._sampler.phase))
            for batch in self._algorithm.minibatches(self._forward, rollout, generator):
                lag = self._learner.updates - acted
                self._monitor.update(self._learner.update(batch, progress, learning_rate), lag)
        self._sampler.version = self._learner.updates
        self._monitor.rollout(slot)
        self._simulators.carry_over()
        if waits:
            self._simulators.finish_resets()
        self._monitor.notes(self._simulators.notes(), kind="restart")
        return learning_rate

    def _save(self, states: Mapping[int, bytes] | None = None) -> None:
        """Writes a checkpoint; `states` of emulators, if they are not to be asked for."""
        self._monitor.check_finite()
        states = self._simulators.save() if states is None else states
        groups, meta = snapshot.take(
            self._learner, self._sampler, self._simulators, self._book, self._monitor, states
        )
        meta["recipe"] = self._config.recipe
        score = self._book.mean_return if self._book.is_full else None  # not the best by a few lucky games
        self._store.save(self._monitor.steps, groups, meta, score=score)
        self._saved_at = self._monitor.steps

    def _restore(self, checkpoint: Checkpoint) -> None:
        notes = snapshot.restore(checkpoint, self._learner, self._sampler, self._simulators, self._book)
        self._monitor.note(f"resumed from the checkpoint of step {checkpoint.step:,}", kind="resume")
        self._monitor.notes(notes, kind="resume")


@contextlib.contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that Ctrl-C, a termination request or a closed terminal sets; one more after a second ends at once."""
    event, previous, asked_at = threading.Event(), {}, 0.0

    def request(number: int, frame: Any) -> None:
        nonlocal asked_at
        now = time.monotonic()
        if event.is_set():
            # A terminal that closes sends several, and who sees nothing happen presses twice.
            if now - asked_at > _AT_ONCE_AFTER:
                raise KeyboardInterrupt
            return
        event.set()
        asked_at = now
        with contextlib.suppress(
            OSError
        ):  # of a closed terminal; not `print`, which this may have interrupted
            os.write(2, b"\nstopping after this batch, with a checkpoint (once more: at once, without)\n")

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            previous[number] = signal.signal(number, request)
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
