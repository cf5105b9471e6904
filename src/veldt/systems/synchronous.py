"""The synchronous system: sample, optimise, sample (Stooke & Abbeel, sections 4.1 and 4.2).

    simulators ==rows==> sampler ==slot==> experience ==batches==> learner ==gradient==> edge
        ^                   |              (fresh rollouts            |
        |                   |               or a replay memory)       |
        +------actions------+ <-----------same parameters-------------+

One process holds sampler, experience and learner; simulators run beside it. The policy that acts is the one that has
just been updated; how old its lessons are is the experience's: one phase for rollouts, any age for a replay memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from veldt.algorithms.base import Forward, OffPolicy, OnPolicy
from veldt.errors import SimulatorError, VeldtError
from veldt.exchange.gradients import OneLearner
from veldt.networks.precision import Network
from veldt.networks.recurrent import memory_of
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.progress import Progress
from veldt.runs.segments import SegmentStore
from veldt.runtime.memory import keep_freed_memory
from veldt.simulators.seeding import episode_seed
from veldt.simulators.simulator import StepperSettings
from veldt.simulators.trajectory import Trajectory
from veldt.systems.assembly import Assembly
from veldt.systems.episodes import EpisodeBook
from veldt.systems.evaluator import play_steps
from veldt.systems.experience import Experience, FreshRollouts, Replayed
from veldt.systems.learner import Learner
from veldt.systems.monitor import Monitor
from veldt.systems.outcome import Outcome, reason_to_stop, stop_requested
from veldt.systems.replay_archive import ReplayArchive, needed_segments
from veldt.systems.sampler import Sampler
from veldt.systems.saving import BackgroundWriter
from veldt.systems.snapshot import Snapshot, Taken
from veldt.systems.stages import StageClock

T = TypeVar("T")


class Synchronous:
    """The system's parts, wired. `checkpoint` is where to go on from, or None to begin."""

    def __init__(
        self, assembly: Assembly, directory: RunDirectory, progress: Progress, checkpoint: Checkpoint | None
    ) -> None:
        keep_freed_memory()
        self._config = config = assembly.config
        self._assembly, self._directory = assembly, directory
        self._clock = StageClock()
        self._algorithm = assembly.algorithm()
        network, parameters = assembly.network()
        forward = assembly.forward(network, progress.note)
        target, target_parameters = assembly.network() if self._algorithm.target else (None, None)
        self._learner = Learner(self._algorithm, forward, parameters, OneLearner(), target_parameters)
        self._agent = assembly.agent(network, directory.path)
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
                noise=self._algorithm.action_noise(network),
                memory=memory_of(network),
                inference=assembly.infer_threads,
                cores=assembly.inference_cores,
            )
            self._experience = self._make_experience(network, forward, target)
            self._archive = self._make_archive(directory)
            self._snapshot = Snapshot(
                self._learner,
                self._sampler,
                self._simulators,
                self._book,
                self._experience,
                self._archive,
            )
            lost = self._snapshot.restore(checkpoint) if checkpoint else []
            # From here on the run's records are cut back to the checkpoint, and written.
            counters = checkpoint.meta["monitor"] if checkpoint else None
            frames = assembly.spec.frames_per_step
            self._monitor = Monitor(config, directory, self._book, self._clock, progress, frames, counters)
            if checkpoint:
                self._monitor.note(f"resumed from the checkpoint of step {checkpoint.step:,}", kind="resume")
                self._monitor.notes(lost, kind="resume")
            self._store = CheckpointStore(directory.checkpoints, config.run.keep_checkpoints)
            self._writer = BackgroundWriter()
            self._begins = checkpoint is None
            self._saved_at = self._monitor.steps
            self._evaluated_at = int(checkpoint.meta["evaluated_at"]) if checkpoint else 0
        except BaseException:
            self._simulators.close()
            raise

    def _make_experience(self, network: Network, forward: Forward, target: Network | None) -> Experience:
        algorithm, seed = self._algorithm, self._config.run.seed
        if isinstance(algorithm, OnPolicy):
            return FreshRollouts(algorithm, forward, self._sampler, seed, self._clock)
        assert isinstance(algorithm, OffPolicy) and target is not None and self._config.replay is not None
        return Replayed(
            algorithm,
            forward,
            self._assembly.forward(target, self._note),
            self._slot,
            self._config.replay,
            self._assembly.device,
            seed,
            self._clock,
            noise=algorithm.update_noise(network),
            note=self._note,
            threads=self._config.run.threads,
        )

    def _make_archive(self, directory: RunDirectory) -> ReplayArchive | None:
        if not isinstance(self._experience, Replayed) or self._config.run.checkpoint_replay == "none":
            return None
        return ReplayArchive(directory.replay, self._experience.memory)

    def _note(self, text: str) -> None:
        self._monitor.note(text)

    def run(self) -> Outcome:
        """Trains until the steps are done, the score is reached, or a signal asks to stop."""
        try:
            with stop_requested() as stop:
                reason = self._reason(stop)
                if self._begins:
                    self._save()
                    self._writer.finish()  # from here on there is always something to resume
                while reason is None:
                    self._writer.check()
                    # Without emulators' states, which have gone on by then.
                    learning_rate = self._or_save(self._phase, {})
                    reason = self._reason(stop)
                    if self._evaluation_is_due(reason):
                        self._or_save(lambda: self._evaluate(stop))
                        reason = reason or self._reason(stop)
                    self._monitor.log(
                        learning_rate,
                        self._learner.updates,
                        self._experience.figures(),
                        force=reason is not None,
                    )
                    if reason or self._monitor.steps - self._saved_at >= self._config.run.checkpoint_every:
                        self._save()
                self._writer.finish()
            return Outcome(reason, self._monitor.summary(reason))
        except Exception:
            self._finish_writing()
            raise
        finally:
            try:
                self._simulators.close()
            finally:
                self._monitor.close()

    def _reason(self, stop: threading.Event) -> str | None:
        return reason_to_stop(self._config.run, self._monitor, self._book, stop)

    def _or_save(self, work: Callable[[], T], states: Mapping[int, bytes] | None = None) -> T:
        """Does `work`; if an environment fails in it, the state before it is kept for when that is mended."""
        try:
            return work()
        except SimulatorError as error:
            if self._monitor.steps > self._saved_at:
                try:
                    self._save(states)
                    self._writer.finish()
                except VeldtError as also:
                    raise error from also
            raise

    def _phase(self) -> float:
        """One rollout and the optimisation on it. Returns the learning rate used."""
        config, slot = self._config.run, self._slot
        progress = min(1.0, self._monitor.steps / config.steps)
        self._sampler.sample(self._monitor.steps)
        waits = self._config.simulation.resets == "wait"
        if waits:
            self._simulators.reset_ended()  # goes on in the workers while this process learns
        learning_rate = self._algorithm.learning_rate(progress, slot.steps * slot.width)
        self._assembly.train_threads()
        if self._archive is not None and self._archive.would_overwrite(slot.steps):
            self._writer.finish()
        done = self._monitor.steps + int(slot.valid.sum())
        for batch, acted in self._experience.batches(done, progress):
            lag = self._learner.updates - acted
            with self._clock("train"):
                loss = self._learner.update(batch, progress, learning_rate)
            self._experience.learned(loss.priority)
            self._monitor.update(loss.figures, lag)
        self._sampler.version = self._learner.updates
        self._count(slot)
        self._sampler.carry_over()
        if waits:
            self._simulators.finish_resets()
        self._monitor.notes(self._simulators.notes(), kind="restart")
        return learning_rate

    def _count(self, slot: Trajectory) -> None:
        """Counts a full slot's steps, and writes down its finished games."""
        steps = int(slot.valid.sum())
        self._monitor.acted(steps, slot.valid.size - steps, int(slot.restarts.sum()))
        for game in self._book.add(slot):
            seed = episode_seed(self._config.run.seed, game.simulator, game.episode)
            self._monitor.game(game, seed)

    def _evaluation_is_due(self, reason: str | None) -> bool:
        every, steps = self._config.run.evaluate_every, self._monitor.steps
        if not every or reason == "interrupted":
            return False
        at_the_end = reason is not None and steps >= every
        return at_the_end or steps // every > self._evaluated_at // every

    def _evaluate(self, stop: threading.Event) -> None:
        """A pause in training, to play by the protocol of `evaluate`; nothing of training is touched."""
        steps, seed = self._config.run.evaluate_steps, self._config.run.seed
        with self._clock("evaluate"):
            self._assembly.infer_threads()
            result = play_steps(self._agent, steps, seed=seed, greedy=False, stopped=stop.is_set)
        if not stop.is_set():  # else it is done when the run goes on
            self._evaluated_at = self._monitor.steps
            self._monitor.evaluation(result, steps)

    def _save(self, states: Mapping[int, bytes] | None = None) -> None:
        """A checkpoint, written beside training; `states` of emulators, if they are not to be asked for."""
        self._monitor.check_finite()
        self._writer.finish()  # before anything new is taken
        taken = self._snapshot.take(self._simulators.save() if states is None else states)
        meta = taken.meta | {
            "monitor": self._monitor.counters(),
            "recipe": self._config.recipe,
            "evaluated_at": self._evaluated_at,
        }
        score = self._book.mean_return if self._book.is_full else None  # not the best by a few lucky games
        self._writer.start(partial(self._write, self._monitor.steps, taken, meta, score))
        self._saved_at = self._monitor.steps

    def _finish_writing(self) -> None:
        """At the end of a run that failed: a checkpoint that could not be written is only mentioned."""
        try:
            self._writer.finish()
        except VeldtError as error:
            self._monitor.note(f"a checkpoint was not written: {error}")

    def _write(self, step: int, taken: Taken, meta: dict[str, Any], score: float | None) -> None:
        try:
            if self._archive is not None and taken.rows is not None:
                meta["replay"] = self._archive.write(taken.rows)
            self._store.save(step, taken.groups, meta, score=score)
        finally:  # also of what a checkpoint that did not fit onto the disk has left there
            SegmentStore(self._directory.replay).keep(needed_segments(self._store.newest_meta()))
