"""The synchronous system of one learner: sample, optimise, sample (Stooke & Abbeel, sections 4.1 and 4.2).

One sampler-learner in this process, its envs in it or in workers. Records and checkpoints are written between phases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from veldt.envs.seeding import episode_seed
from veldt.errors import EnvError, VeldtError
from veldt.evaluation.evaluator import play_steps
from veldt.learning.learner import check_finite
from veldt.learning.snapshot import SnapshotContent
from veldt.replay.archive import needed_segments
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.segments import SegmentStore
from veldt.systems.driver.monitor import Monitor
from veldt.systems.driver.outcome import Outcome, reason_to_stop, stop_on_signals
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.sampler_learner import SamplerLearner, WorkerRank
from veldt.tracking.recording import Recording
from veldt.tracking.stage_clock import StageClock

T = TypeVar("T")


class Synchronous:
    """A run of one sampler-learner in this process, from the start or resumed from `checkpoint`."""

    def __init__(
        self, run_plan: RunPlan, directory: RunDirectory, recording: Recording, checkpoint: Checkpoint | None
    ) -> None:
        self._config = config = run_plan.config
        self._run_plan, self._directory = run_plan, directory
        self._clock = StageClock()
        with_replay = config.run.checkpoint_replay == "full"
        self._note: Callable[[str], None] = recording.progress.note  # until the monitor exists
        self._unit = unit = SamplerLearner(
            run_plan,
            WorkerRank(config.run.seed),
            self._clock,
            directory.replay if with_replay else None,
            self._show_note,
        )
        try:
            unrestored = unit.begin(checkpoint)
            # From here on the run's records are truncated to the checkpoint's position, and appended to.
            counters = checkpoint.meta["monitor"] if checkpoint else None
            frames = run_plan.spec.frames_per_step
            self._monitor = Monitor(
                config, directory, unit.episodes, self._clock, recording, frames, counters
            )
            self._note = self._monitor.note
            if checkpoint:
                self._monitor.note(f"resumed from the checkpoint of step {checkpoint.step:,}", kind="resume")
                self._monitor.notes(unrestored, kind="resume")
            self._agent = run_plan.agent(unit.network, directory.path)
            self._store = CheckpointStore(directory.checkpoints, config.run.keep_checkpoints)
            self._writer = BackgroundWriter()
            self._is_new = checkpoint is None
            self._saved_at = self._monitor.steps
            self._evaluated_at = int(checkpoint.meta["evaluated_at"]) if checkpoint else 0
        except BaseException:
            unit.close()
            raise

    def _show_note(self, text: str) -> None:
        self._note(text)

    def run(self) -> Outcome:
        """Trains until the steps are done, the target return is reached, or a signal asks to stop."""
        try:
            with stop_on_signals() as stop:
                reason = self._reason(stop)
                if self._is_new:
                    self._save()
                    self._writer.finish()  # from here on there is always a checkpoint to resume from
                while reason is None:
                    self._writer.check()
                    # Without emulator states, which have moved on by the time of a failure.
                    learning_rate = self._or_save(self._phase, {})
                    reason = self._reason(stop)
                    if self._evaluation_is_due(reason):
                        self._or_save(lambda: self._evaluate(stop))
                        reason = reason or self._reason(stop)
                    metrics = self._unit.metrics(self._monitor.steps)
                    updates = self._unit.learner.updates
                    self._monitor.log(learning_rate, updates, metrics, force=reason is not None)
                    if reason or self._monitor.steps - self._saved_at >= self._config.run.checkpoint_every:
                        self._save()
                self._writer.finish()
            return Outcome(reason, self._monitor.summary(reason))
        except Exception:
            self._finish_writing()
            raise
        finally:
            try:
                self._unit.close()
            finally:
                self._monitor.close()

    def _reason(self, stop: threading.Event) -> str | None:
        return reason_to_stop(self._config.run, self._monitor, self._unit.episodes, stop)

    def _or_save(self, work: Callable[[], T], states: Mapping[int, bytes] | None = None) -> T:
        """Runs `work`; if an env fails in it, saves a checkpoint, so that the run can resume when the env is mended."""
        try:
            return work()
        except EnvError as error:
            if self._monitor.steps > self._saved_at:
                try:
                    self._save(states)
                    self._writer.finish()
                except VeldtError as also:
                    raise error from also
            raise

    def _phase(self) -> float:
        """Runs one rollout and the updates on it. Returns the learning rate used."""
        unit, steps = self._unit, self._monitor.steps
        phase = unit.run_phase(
            steps,
            steps,
            lambda loss, lag, _: self._monitor.record_update(loss.metrics, lag),
            self._writer.finish,
        )
        self._monitor.count_steps(phase.steps, phase.reset_steps, unit.restarts)
        for game in phase.episodes:
            seed = episode_seed(self._config.run.seed, game.env_index, game.episode)
            self._monitor.record_episode(game, seed)
        self._monitor.notes(unit.envs.notes(), kind="restart")
        return phase.learning_rate

    def _evaluation_is_due(self, reason: str | None) -> bool:
        every, steps = self._config.run.evaluate_every, self._monitor.steps
        if not every or reason == "interrupted":
            return False
        at_the_end = reason is not None and steps >= every
        return at_the_end or steps // every > self._evaluated_at // every

    def _evaluate(self, stop: threading.Event) -> None:
        """Pauses training to play by the protocol of `veldt evaluate`; training state is not touched."""
        steps, seed = self._config.run.evaluate_steps, self._config.run.seed
        with self._clock("evaluate"):
            self._run_plan.infer_threads()
            result = play_steps(self._agent, steps, seed=seed, greedy=False, stopped=stop.is_set)
        if not stop.is_set():  # else the evaluation is repeated when the run resumes
            self._evaluated_at = self._monitor.steps
            self._monitor.record_evaluation(result, steps)

    def _save(self, states: Mapping[int, bytes] | None = None) -> None:
        """Starts writing a checkpoint in the background; `states` of emulators, or None to ask the envs for them."""
        self._monitor.check_finite()
        self._writer.finish()  # before a new snapshot is taken
        unit = self._unit
        content = unit.snapshot.take(unit.envs.save() if states is None else states)
        meta = content.meta | {
            "monitor": self._monitor.counters(),
            "recipe": self._config.recipe,
            "evaluated_at": self._evaluated_at,
        }
        # A mean over few episodes could be the best by luck.
        score = unit.episodes.mean_return if unit.episodes.is_full else None
        self._writer.start(partial(self._write, self._monitor.steps, content, meta, score))
        self._saved_at = self._monitor.steps

    def _finish_writing(self) -> None:
        """Finishes writing after a failure: a checkpoint that could not be written only leads to a note."""
        try:
            self._writer.finish()
        except VeldtError as error:
            self._monitor.note(f"a checkpoint was not written: {error}")

    def _write(self, step: int, content: SnapshotContent, meta: dict[str, Any], score: float | None) -> None:
        try:
            check_finite(step, content.groups)
            if self._unit.archive is not None and content.rows is not None:
                meta["replay"] = self._unit.archive.write(content.rows)
            self._store.save(step, content.groups, meta, score=score)
            self._monitor.checkpoint_saved(step)
        finally:  # also removes the files of a checkpoint that did not fit on the disk
            SegmentStore(self._directory.replay).keep(needed_segments(self._store.newest_meta()))
