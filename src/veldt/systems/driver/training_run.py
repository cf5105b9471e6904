"""Trains by running a graph of roles: handles their messages, evaluates, and writes records and checkpoints.

    roles --episodes, metrics, parts of snapshots--> this process --> the run's directory

Roles run in processes, on a cluster, or (one alone) in this process, which itself neither acts nor learns. The edges
between roles carry everything else; see the system's graph.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.errors import EnvError, RoleError, VeldtError
from veldt.exchange.graph import Graph, Role
from veldt.exchange.rate_limiter import RateLimiter
from veldt.learning.checked_results import checked_scored_envs
from veldt.learning.snapshot import replay_is_empty
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import remove_own
from veldt.runs.own_names import OF_RENDEZVOUS
from veldt.runtime.role_messages import Received
from veldt.runtime.supervision.interfaces import RunningRoles
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.checkpointing import Checkpointing, DriverState, Parts
from veldt.systems.driver.episode_recorder import EpisodeRecorder
from veldt.systems.driver.evaluating import Evaluating
from veldt.systems.driver.long_phase import LongPhase
from veldt.systems.driver.message_handler import MessageHandler
from veldt.systems.driver.monitor import AT_THE_START, Monitor
from veldt.systems.driver.outcome import Outcome, reason_to_stop
from veldt.systems.driver.role_metrics import RoleMetrics
from veldt.systems.driver.slow_start import note_if_start_is_slow
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.messages import CurrentWeights
from veldt.tracking.recording import Recording
from veldt.tracking.stage_clock import StageClock

_POLL_S = 0.1  # seconds that a poll waits for a message
_STOP_S = 30.0  # for roles to end on request
_STOP_INTERRUPTED_S = 3.0  # the same, when the user waits for the end
_INTERRUPTED_S = 5.0  # after a signal, until roles that do not work are not waited for any more
_SILENT_S = 4.0  # without a heartbeat, after which a role then counts as one that does not work
_LAST_PARTS_S = 20.0  # for a last checkpoint when the run has failed
_PARTS_S = 300.0  # for all parts of a checkpoint to arrive

# Makes what runs a graph, not yet started, and the edges.
StartRoles = Callable[[Graph], tuple[RunningRoles, dict[str, Any]]]


@dataclass(frozen=True)
class RestartHistory:
    """A sentence on why the previous roles ended, and the restarts of roles so far, including these."""

    text: str
    restarts: int


class TrainingRun:
    """A run of the run plan's graph.

    Args:
        checkpoint: where to resume from, or None to start a run.
        start_roles: makes what runs the roles, and the edges between them.
        lost: why the run restarts within the same call, if it does.
    """

    def __init__(
        self,
        run_plan: RunPlan,
        directory: RunDirectory,
        recording: Recording,
        checkpoint: Checkpoint | None,
        start_roles: StartRoles,
        lost: RestartHistory | None = None,
    ) -> None:
        self._directory, self._config = directory, run_plan.config
        config, meta = self._config, checkpoint.meta if checkpoint else {}
        graph = run_plan.graph(directory.place, checkpoint)
        with note_if_start_is_slow(recording.progress):
            self._roles, edges = start_roles(graph)
        with contextlib.ExitStack() as undone:
            undone.callback(self._roles.kill)
            self._rate_limiter: RateLimiter = edges["rate_limiter"]
            self._rate_limiter.max_steps = config.run.steps
            roles = [(role, index) for role in graph.roles for index in range(len(role.plans))]
            self._names = [role.named(index) for role, index in roles]
            before = meta.get("incarnations", {})
            self._incarnations = {name: int(before.get(name, 0)) for name in self._names}
            self._scores, self._clock, self._stop = ReturnTracker(), StageClock(), threading.Event()
            # From here on the run's records are truncated to the checkpoint's position, and appended to. Without a
            # checkpoint, what lost roles have recorded is removed.
            counters = meta.get("monitor") or (AT_THE_START if lost else None)
            self._monitor = Monitor(
                config,
                directory,
                self._scores,
                self._clock,
                recording,
                run_plan.spec.frames_per_step,
                counters,
            )
            undone.callback(self._monitor.close)
            self._metrics = RoleMetrics(self._names, self._rate_limiter, self._clock)
            evaluated_at = int(meta.get("evaluated_at", 0))
            self._evaluating = Evaluating(run_plan, directory, self._monitor, self._clock, evaluated_at)
            self._checkpointing = self._make_checkpointing(graph, roles, checkpoint)
            algorithm = run_plan.algorithm()
            scored_envs = checked_scored_envs(algorithm.scored_envs(config.envs.num_envs), algorithm)
            self._messages = MessageHandler(
                roles,
                self._incarnations,
                self._rate_limiter,
                self._monitor,
                self._metrics,
                EpisodeRecorder(config, scored_envs, self._scores, self._monitor),
                self._evaluating,
                self._checkpointing,
            )
            self._requested_at = self._monitor.steps  # the step of the last regular checkpoint
            if lost:
                self._monitor.note(lost.text, "restart")
            if checkpoint:
                self._restore(checkpoint, says_so=lost is None)
            if lost:
                self._metrics.role_restarts = lost.restarts
            undone.pop_all()  # nothing has failed

    def _make_checkpointing(
        self, graph: Graph, roles: Sequence[tuple[Role, int]], checkpoint: Checkpoint | None
    ) -> Checkpointing:
        return Checkpointing(
            self._roles,
            [number for number, (role, index) in enumerate(roles) if role.is_checkpointed(index)],
            graph.whole,
            self._directory,
            self._config.run.keep_checkpoints,
            self._state,
            checkpoint.step if checkpoint else None,
            self._monitor.checkpoint_saved,
        )

    @property
    def role_restarts(self) -> int:
        """Restarts of roles in the whole run."""
        return self._metrics.role_restarts

    def _restore(self, checkpoint: Checkpoint, *, says_so: bool) -> None:
        meta, rate_limiter = checkpoint.meta, self._rate_limiter
        counts = meta["rate_limiter"]
        self._scores.num_episodes = int(meta["scores"]["num_episodes"])
        self._scores.recent.extend(map(float, meta["scores"]["recent"]))
        rate_limiter.steps_A[:], rate_limiter.updates_L[:] = counts["steps"], counts["updates"]
        rate_limiter.waived_L[:], rate_limiter.learning_starts = counts["waived"], counts["starts"]
        self._metrics.role_restarts = int(meta["role_restarts"])
        if says_so:
            self._monitor.note(f"resumed from the checkpoint of step {checkpoint.step:,}", kind="resume")
        if self._config.replay is not None and not self._config.in_phases:
            self._restore_replay(has_rows=bool(meta["segments"]))

    def _restore_replay(self, *, has_rows: bool) -> None:
        """Where the shards begin without the rows of the checkpoint, lets learning wait until they are filled anew."""
        if has_rows and self._config.run.checkpoint_replay == "full":
            return
        assert isinstance(self._config.learn, OffPolicyConfig)
        steps = self._config.learn.learning_starts
        self._rate_limiter.begin_learning_anew(steps)
        self._monitor.note(replay_is_empty(steps, has_rows), kind="resume")

    def run(self, stop: threading.Event) -> Outcome:
        """Runs until the steps are done, the target return is reached, or `stop` is set (see `stop_on_signals`)."""
        self._stop, self._phase = stop, LongPhase(self._monitor, stop)
        try:
            reason = self._train()
            return Outcome(reason, self._monitor.summary(reason))
        except (RoleError, EnvError) as error:
            self._save_after_failure(error)
            raise
        except Exception:
            self._finish_after_failure()
            raise
        finally:
            try:
                self._roles.kill()
            finally:
                # Resolved, because the path may go through a symbolic link.
                remove_own(self._directory.place.resolve(), OF_RENDEZVOUS)
                self._monitor.close()

    def _train(self) -> str:
        """Polls the roles until the run ends. Returns the reason (see `Outcome`)."""
        reason = self._reason()
        is_new = self._checkpointing.saved_step is None
        if reason is not None and not is_new and not self._evaluating.is_due_at_the_end(reason):
            return reason  # there is nothing left to do
        self._roles.start(self._phase.look)
        if is_new:
            self._request_checkpoint()  # once it is written, there is always a checkpoint to resume from
            if self._roles.is_inline:
                self._finish_writing()  # no phase begins before that
        while reason is None:
            self._poll()
            reason = self._reason()
            if reason is None and self._roles.is_inline and self._evaluating.is_due:
                self._evaluate_between_phases()
                reason = self._reason()
            if reason is None:
                self._log(force=False)
                self._advance_checkpoint()
        return self._end(reason)

    def _reason(self) -> str | None:
        return reason_to_stop(self._config.run, self._monitor, self._scores, self._stop)

    def _poll(self) -> None:
        self._phase.begin()
        try:
            self._handle(self._roles.poll(_POLL_S))
        finally:
            self._phase.end()

    def _handle(self, messages: list[Received]) -> None:
        self._messages.handle(messages)

    def _log(self, *, force: bool) -> None:
        if not force and not self._monitor.is_due:
            return
        self._handle(self._roles.flush())
        metrics = self._metrics
        self._monitor.log(metrics.learning_rate, metrics.updates, metrics.row())

    def _evaluate_between_phases(self) -> None:
        """Pauses training, since the only role works in this process; its state is not touched."""
        self._handle(self._roles.flush(weights=True))
        self._evaluating.play(self._messages.take_weights(), self._stop)

    def _advance_checkpoint(self) -> None:
        """Starts a checkpoint that is due, and writes one that has all its parts."""
        checkpointing, is_inline = self._checkpointing, self._roles.is_inline
        checkpointing.advance()
        if self._monitor.steps - self._requested_at < self._config.run.checkpoint_every:
            return
        if is_inline and not checkpointing.is_idle:
            self._finish_writing()
        if checkpointing.is_idle:
            self._request_checkpoint()

    def _request_checkpoint(self) -> None:
        self._requested_at = self._monitor.steps
        self._checkpointing.request()
        if self._roles.is_inline:  # its turn is to take the snapshot
            self._poll()
            self._checkpointing.advance()

    def _finish_writing(self) -> None:
        """Waits until the snapshot that a role of this process has taken is on disk."""
        self._handle(self._roles.flush(writing=True))
        self._checkpointing.finish_all()

    def _state(self, parts: Parts) -> DriverState:
        """Returns the driver's part of a checkpoint. Raises VeldtError if training has diverged."""
        self._monitor.check_finite()
        rate_limiter = self._rate_limiter
        # Counts at which each learner took its part.
        updates = {part.rank: part.updates for part in parts.values() if part.updates is not None}
        steps = {part.rank: part.steps for part in parts.values() if part.steps is not None}
        meta = {
            "monitor": self._monitor.counters(),
            "recipe": self._config.recipe,
            "evaluated_at": self._evaluating.evaluated_at,
            # Every role of the resumed run is a new incarnation.
            "incarnations": {name: count + 1 for name, count in self._incarnations.items()},
            "scores": {"num_episodes": self._scores.num_episodes, "recent": list(self._scores.recent)},
            "rate_limiter": {
                "steps": [steps.get(number, int(own)) for number, own in enumerate(rate_limiter.steps_A)],
                "updates": [updates.get(rank, updates[0]) for rank in range(len(rate_limiter.updates_L))],
                "waived": rate_limiter.waived_L.tolist(),
                "starts": int(rate_limiter.learning_starts),
            },
            "role_restarts": self._metrics.role_restarts,
            "learners": {part.rank: part.state for part in parts.values() if part.state is not None},
        }
        # A mean over few episodes could be the best by luck.
        score = self._scores.mean_return if self._scores.is_full else None
        return DriverState(self._monitor.steps, meta, score)

    def _end(self, reason: str) -> str:
        """Writes the last checkpoint, and before that runs the last evaluation, once roles have freed all cores.

        Returns the reason: "interrupted" if that evaluation was, so that a resumed run repeats it.
        """
        checkpointing, is_interrupted = self._checkpointing, reason == "interrupted"
        if is_interrupted and self._monitor.steps == 0:
            raise KeyboardInterrupt  # there is nothing to save
        self._rate_limiter.max_steps = 0  # no role acts while the rest of the checkpoint is awaited
        end = time.monotonic() + _INTERRUPTED_S if is_interrupted else math.inf
        self._poll_while(lambda: checkpointing.is_captured, checkpointing.advance, give_up_at=end)
        if not checkpointing.is_requested:
            checkpointing.finish()
            checkpointing.request()
        self._poll_while(lambda: not checkpointing.is_whole, give_up_at=end)
        self._handle(self._roles.stop(_STOP_INTERRUPTED_S if is_interrupted else _STOP_S))
        self._check_learned(reason)
        if self._evaluating.is_due_at_the_end(reason):
            self._evaluating.play(CurrentWeights.of_checkpoint(checkpointing.groups()), self._stop)
        self._log(force=True)
        checkpointing.finish_all()
        return "interrupted" if self._evaluating.is_due_at_the_end(reason) else reason

    def _check_learned(self, reason: str) -> None:
        """Raises RoleError if all steps are done, and errors of roles have prevented every update."""
        learn, lost = self._config.learn, self._messages.last_restart
        is_early = isinstance(learn, OffPolicyConfig) and self._monitor.steps <= learn.learning_starts
        if reason == "steps" and lost is not None and self._metrics.updates == 0 and not is_early:
            raise RoleError(
                f"the {lost.name} {lost.why}, and no update was made in all {self._monitor.steps:,} steps",
                details=lost.details,
            )

    def _poll_while(
        self, holds: Callable[[], bool], then: Callable[[], None] = lambda: None, *, give_up_at: float
    ) -> None:
        """Polls, and calls `then`, while `holds`. Says once for whom it waits after `give_up_at`.

        Raises:
            VeldtError: a part of the checkpoint is overdue.
            KeyboardInterrupt: it is later than `give_up_at`, and a role whose part is missing hangs or still starts.
        """
        end, has_said = time.monotonic() + _PARTS_S, False
        while holds():
            now, missing = time.monotonic(), sorted(self._checkpointing.missing)
            if now > end:
                lacks = f"lacks the part of the {self._named(missing)}, which did not come"
                waits = "waits for the one before it, which was not written"
                raise VeldtError(f"the last checkpoint {lacks if missing else waits} in {_PARTS_S:g} s")
            if now > give_up_at:
                if silent := [role for role in missing if not self._roles.works(role, _SILENT_S)]:
                    self._finish_after_failure()
                    interrupt = KeyboardInterrupt()
                    interrupt.add_note(f"no last checkpoint: the {self._named(silent)} did not answer")
                    raise interrupt
                if missing and not has_said:
                    has_said = True
                    self._monitor.note(f"the checkpoint waits for the {self._named(missing)}")
            self._poll()
            then()

    def _named(self, roles: Sequence[int]) -> str:
        return ", ".join(self._names[role] for role in roles)

    def _finish_after_failure(self) -> None:
        """Finishes the checkpoint that was being written; one that cannot be written only leads to a note."""
        checkpointing = self._checkpointing
        if self._roles.is_inline and checkpointing.is_captured:
            with contextlib.suppress(VeldtError):  # the failure itself may come again
                self._handle(self._roles.flush(writing=True))
        checkpointing.finish_after_failure(self._monitor.note)

    def _save_after_failure(self, error: VeldtError) -> None:
        """Writes a last checkpoint after a failure, if the roles that have parts in it are still running."""
        checkpointing = self._checkpointing
        self._finish_after_failure()
        try:
            if not self._roles.all_ended:
                if self._monitor.steps == checkpointing.saved_step:
                    return
                self._rate_limiter.max_steps = 0
                checkpointing.request()
                self._await_parts()
            if checkpointing.is_whole:
                checkpointing.finish_all()
        except VeldtError as also:
            raise error from also

    def _await_parts(self) -> None:
        end = time.monotonic() + _LAST_PARTS_S
        while self._checkpointing.missing and time.monotonic() < end:
            if any(self._roles.has_ended(role) for role in self._checkpointing.missing):
                break
            with contextlib.suppress(RoleError):  # the cause that ended one actor soon ends another
                self._poll()
