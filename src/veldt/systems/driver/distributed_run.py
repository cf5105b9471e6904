"""Runs a graph of roles: supervises them, records their messages, and writes checkpoints.

    roles (processes) --episodes, metrics, parts of snapshots--> this process --> the run's directory

This process neither acts nor learns. The edges between roles carry everything else; see the system's graph.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.system_settings import ActorsConfig
from veldt.errors import RoleError, VeldtError
from veldt.evaluation.evaluator import Evaluation, play_steps
from veldt.exchange.graph import Graph
from veldt.exchange.rate_limiter import RateLimiter
from veldt.learning.learner import check_finite, load_weights
from veldt.replay.archive import remove_unneeded
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import remove_own
from veldt.runs.own_names import OF_RENDEZVOUS
from veldt.runtime.supervision import RoleMessage, Supervision
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.checkpoint_assembler import CheckpointAssembler
from veldt.systems.driver.local_runtime import start_local
from veldt.systems.driver.monitor import Monitor
from veldt.systems.driver.outcome import Outcome, reason_to_stop, stop_on_signals
from veldt.systems.driver.role_metrics import RoleMetrics
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.episode_messages import episodes_of_message
from veldt.tracking.progress import Progress
from veldt.tracking.stage_clock import StageClock

_POLL_S = 0.1
_STOP_S = 30.0  # for roles to end on request
_LAST_PARTS_S = 20.0  # for a last checkpoint when the run has failed
_PARTS_S = 300.0  # for all parts of a checkpoint to arrive

MakeGraph = Callable[[RunPlan, Path, Checkpoint | None], Graph]
Supervised = Callable[[Graph], tuple[Supervision, dict[str, Any]]]  # makes what runs a graph; not yet started


@dataclass(frozen=True)
class RestartHistory:
    """A sentence on why the previous roles ended, and the restarts of roles so far, including these."""

    text: str
    restarts: int


class DistributedRun:
    """A run of the graph that `make_graph` makes.

    Args:
        checkpoint: where to resume from, or None to start a run.
        lost: why the run restarts within the same call, if it does.
    """

    def __init__(
        self,
        make_graph: MakeGraph,
        run_plan: RunPlan,
        directory: RunDirectory,
        progress: Progress,
        checkpoint: Checkpoint | None,
        supervised: Supervised = start_local,
        lost: RestartHistory | None = None,
    ) -> None:
        self._run_plan, self._directory, self._config = run_plan, directory, run_plan.config
        config, meta = self._config, checkpoint.meta if checkpoint else {}
        self._graph = make_graph(run_plan, directory.path.absolute(), checkpoint)
        self._supervisor, edges = supervised(self._graph)
        self._rate_limiter: RateLimiter = edges["rate_limiter"]
        self._rate_limiter.max_steps = config.run.steps
        roles = [(role, index) for role in self._graph.roles for index in range(len(role.plans))]
        self._names = [role.named(index) for role, index in roles]
        self._resumes_from = [role.resumes_from for role, _ in roles]
        checkpointed = [number for number, (role, index) in enumerate(roles) if role.is_checkpointed(index)]
        self._incarnations = {name: int(meta.get("lives", {}).get(name, 0)) for name in self._names}
        self._scores = ReturnTracker()
        self._clock = StageClock()
        frames = run_plan.spec.frames_per_step
        counters = meta.get("monitor")
        self._monitor = Monitor(config, directory, self._scores, self._clock, progress, frames, counters)
        self._metrics = RoleMetrics(self._names, self._rate_limiter, self._clock)
        self._scored_envs = run_plan.algorithm().scored_envs(config.envs.num_envs)
        self._has_evaluator = isinstance(config.roles, ActorsConfig) and config.roles.evaluator_share > 0
        self._store = CheckpointStore(directory.checkpoints, config.run.keep_checkpoints)
        self._writer, self._parts = BackgroundWriter(), CheckpointAssembler(checkpointed)
        self._stop = threading.Event()
        self._is_new = checkpoint is None
        self._saved_at = self._monitor.steps
        self._saved_step = checkpoint.step if checkpoint else 0
        self._evaluated_at = int(meta.get("evaluated_at", 0))
        if checkpoint:
            self._restore(checkpoint)
        if lost:
            self._metrics.role_restarts = lost.restarts
            self._monitor.note(lost.text, "restart")

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether a signal has asked to stop the run."""
        return self._stop.is_set()

    @property
    def role_restarts(self) -> int:
        """Restarts of roles in the whole run."""
        return self._metrics.role_restarts

    def _restore(self, checkpoint: Checkpoint) -> None:
        meta, rate_limiter = checkpoint.meta, self._rate_limiter
        scores = meta["scores"]
        self._scores.num_episodes = scores["games"]
        self._scores.recent.extend(scores["recent"])
        rate_limiter.steps_A[:], rate_limiter.updates_L[:] = (
            meta["rate_limiter"]["steps"],
            meta["rate_limiter"]["updates"],
        )
        rate_limiter.waived_L[:], rate_limiter.starts = (
            meta["rate_limiter"]["excused"],
            meta["rate_limiter"]["starts"],
        )
        self._metrics.load(meta["metrics"])
        self._monitor.note(f"resumed from the checkpoint of step {checkpoint.step:,}", kind="resume")
        if (
            self._config.replay is not None
            and not self._config.in_phases
            and not (meta["shards"] and self._config.run.checkpoint_replay == "full")
        ):
            why = "the checkpoint holds none" if not meta["shards"] else "by --checkpoint-replay none"
            assert isinstance(self._config.learn, OffPolicyConfig)
            waits = self._config.learn.learning_starts
            rate_limiter.starts, rate_limiter.waived_L[:] = rate_limiter.steps + waits, 0
            rate_limiter.waived_L[0] = -int(rate_limiter.updates_L.sum()) * rate_limiter.batch_size
            self._monitor.note(
                f"the replay buffer is empty ({why}): acting continues, and so does learning when {waits:,} steps have "
                "filled it anew",
                kind="resume",
            )

    def run(self) -> Outcome:
        """Runs until the steps are done, the target return is reached, or a signal asks to stop."""
        try:
            with stop_on_signals() as stop:
                self._stop = stop
                self._supervisor.start()
                if self._is_new:
                    self._begin_snapshot()  # as soon as it is written, there is always a checkpoint to resume from
                reason = None
                while reason is None:
                    self._handle_messages(self._supervisor.poll(_POLL_S))
                    reason = reason_to_stop(self._config.run, self._monitor, self._scores, stop)
                    self._log(force=False)
                    self._advance_checkpoint()
                self._end(reason, stop)
            return Outcome(reason, self._monitor.summary(reason))
        except RoleError as error:
            self._save_after_failure(error)
            raise
        except VeldtError:
            self._finish_writing()
            raise
        finally:
            self._supervisor.kill()
            # Resolved, because the path may go through a symbolic link.
            remove_own(self._directory.path.resolve(), OF_RENDEZVOUS)
            self._monitor.close()

    def _handle_messages(self, messages: list[RoleMessage]) -> None:
        steps = self._rate_limiter.steps - self._monitor.steps
        self._monitor.count_steps(steps, self._metrics.new_reset_steps(), self._metrics.env_restarts)
        for message in messages:
            values, name = message.values, self._names[message.role]
            match message.kind:
                case "games":
                    self._record_episodes(message)
                case "actor":
                    self._metrics.actor(message.role, values)
                case "metrics":
                    self._metrics.learner(message.role, values)
                    lags = values["lag_min"], values["lag_max"]
                    self._monitor.record_update(values["sums"], values["lag_sum"], values["count"], lags)
                    self._monitor.check_finite()
                case "note":
                    self._monitor.note(values["text"], values["about"])
                case "evaluation":
                    self._evaluated_at = values["step"]
                    result = Evaluation(values["scores"], values["lengths"])
                    self._monitor.record_evaluation(result, self._config.run.evaluate_steps)
                case "part":
                    self._parts.add(message)
                case "restarted":
                    self._incarnations[name] += 1
                    self._metrics.role_restarts += 1
                    text = f"the {name} {values['why']}, and was started again"
                    if resumes_from := self._resumes_from[message.role]:
                        text += f" from {resumes_from.format(step=self._saved_step)}"
                    self._monitor.note(text, "restart")
                    if message.role in self._parts.missing:
                        self._begin_snapshot()  # the role's part of the pending one is lost

    def _record_episodes(self, message: RoleMessage) -> None:
        counted = []
        envs = self._config.envs.num_envs
        for game, seed in episodes_of_message(message):
            self._monitor.record_episode(game, seed)
            is_evaluators = game.env_index >= envs
            if is_evaluators or (not self._has_evaluator and game.env_index in self._scored_envs):
                counted.append(game)
        self._scores.record(counted)

    def _log(self, *, force: bool) -> None:
        metrics = self._metrics
        self._monitor.log(metrics.learning_rate, metrics.updates, metrics.row(), force=force)

    def _begin_snapshot(self) -> None:
        self._parts.expect(self._supervisor.request_snapshot())

    def _advance_checkpoint(self) -> None:
        """Starts a checkpoint that is due, and writes one that has all its parts."""
        self._writer.check()
        if self._parts.is_whole and self._writer.is_done:
            self._write_parts()
        # Only when the one before is on disk: writing one removes files that it does not name, even half-written ones.
        can_begin = not self._parts.is_expected and self._writer.is_done
        if can_begin and self._monitor.steps - self._saved_at >= self._config.run.checkpoint_every:
            self._begin_snapshot()
            self._saved_at = self._monitor.steps

    def _write_parts(self) -> None:
        self._monitor.check_finite()
        self._writer.finish()
        parts = self._parts.take()
        self._supervisor.snapshot_done()
        groups, segments = self._groups(parts)
        rate_limiter = self._rate_limiter
        # Update counts at which the weights were taken, sent before the replay buffer was on disk.
        updates = {
            part.values["rank"]: part.values["updates"] for part in parts.values() if "updates" in part.values
        }
        steps = {
            part.values["rank"]: part.values["steps"] for part in parts.values() if "steps" in part.values
        }
        units = {part.values["rank"]: part.values["unit"] for part in parts.values() if "unit" in part.values}
        meta = {
            "monitor": self._monitor.counters(),
            "recipe": self._config.recipe,
            "evaluated_at": self._evaluated_at,
            # Every role of the resumed run is a new incarnation.
            "lives": {name: count + 1 for name, count in self._incarnations.items()},
            "scores": {"games": self._scores.num_episodes, "recent": list(self._scores.recent)},
            "rate_limiter": {
                "steps": [steps.get(number, int(own)) for number, own in enumerate(rate_limiter.steps_A)],
                "updates": [updates.get(rank, updates[0]) for rank in range(len(rate_limiter.updates_L))],
                "excused": rate_limiter.waived_L.tolist(),
                "starts": int(rate_limiter.starts),
            },
            "metrics": self._metrics.counters(),
            "shards": segments,
            "units": units,
        }
        score = self._scores.mean_return if self._scores.is_full else None
        self._writer.start(partial(self._write, self._monitor.steps, groups, meta, score))

    def _groups(
        self, parts: Mapping[int, RoleMessage]
    ) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
        """Returns arrays by group, and the segments of each shard."""
        groups: dict[str, dict[str, np.ndarray]] = {}
        segments = {}
        for part in parts.values():
            for name, array in part.arrays.items():
                group, _, rest = name.partition(":")
                groups.setdefault(group, {})[rest] = array
            if "segments" in part.values:
                segments[part.values["group"]] = part.values["segments"]
        return self._graph.whole(groups), segments

    def _write(self, step: int, groups: Any, meta: dict[str, Any], score: float | None) -> None:
        try:
            check_finite(step, groups)
            self._store.save(step, groups, meta, score=score)
            self._saved_step = step
        finally:  # also removes the files of a checkpoint that did not fit on the disk
            remove_unneeded(self._directory.replay, self._store.newest_meta(), meta["shards"])

    def _end(self, reason: str, stop: threading.Event) -> None:
        """Writes the last checkpoint, and before that runs the last evaluation, once roles have freed all cores."""
        self._rate_limiter.max_steps = 0  # no role acts while the rest of the checkpoint is awaited
        if not self._parts.is_expected:
            self._writer.finish()
            self._begin_snapshot()
        end = time.monotonic() + _PARTS_S
        while not self._parts.is_whole:
            if time.monotonic() > end:
                missing = ", ".join(self._names[role] for role in sorted(self._parts.missing))
                raise VeldtError(
                    f"the last checkpoint lacks the part of the {missing}, which did not come in {_PARTS_S:g} s"
                )
            self._handle_messages(self._supervisor.poll(_POLL_S))
        self._handle_messages(self._supervisor.stop(_STOP_S))
        self._log(force=True)
        if self._evaluation_is_due(reason):
            self._evaluate(stop)
        self._writer.finish()
        self._write_parts()
        self._writer.finish()

    def _evaluation_is_due(self, reason: str) -> bool:
        every = self._config.run.evaluate_every
        return bool(every) and reason != "interrupted" and self._monitor.steps >= every

    def _evaluate(self, stop: threading.Event) -> None:
        weights = self._groups(self._parts.parts)[0]["weights"]
        network, parameters = self._run_plan.network()
        load_weights(parameters, {name: array.copy() for name, array in weights.items()})
        agent = self._run_plan.agent(network, self._directory.path)
        steps, seed = self._config.run.evaluate_steps, self._config.run.seed
        result = play_steps(agent, steps, seed=seed, greedy=False, stopped=stop.is_set)
        if not stop.is_set():
            self._evaluated_at = self._monitor.steps
            self._monitor.record_evaluation(result, steps)
            self._log(force=True)

    def _save_after_failure(self, error: RoleError) -> None:
        """Writes a last checkpoint after a role has failed, if the roles that have parts in it are still running."""
        self._finish_writing()
        self._begin_snapshot()
        end = time.monotonic() + _LAST_PARTS_S
        while self._parts.missing and time.monotonic() < end:
            if any(self._supervisor.has_ended(role) for role in self._parts.missing):
                break
            with contextlib.suppress(RoleError):  # the cause that ended one actor soon ends another
                self._handle_messages(self._supervisor.poll(_POLL_S))
        try:
            self._writer.finish()
            if self._parts.is_whole:
                self._write_parts()
                self._writer.finish()
        except VeldtError as also:
            raise error from also

    def _finish_writing(self) -> None:
        """Finishes writing after a failure: a checkpoint that could not be written only leads to a note."""
        try:
            self._writer.finish()
        except VeldtError as error:
            self._monitor.note(f"a checkpoint was not written: {error}")
