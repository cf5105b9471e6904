"""Records the events of a run: rows of metrics, progress, episodes, summary."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.plan_digest import plan_digest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import ATARI_PREFIX
from veldt.errors import diverged
from veldt.evaluation.evaluator import TO_SET_A_TIME_LIMIT, Evaluation
from veldt.formatting import counted
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeLog
from veldt.sampling.episodes import Episode, ReturnTracker
from veldt.systems.roles.messages import LearnerMetrics
from veldt.tracking.metric_names import with_prefix
from veldt.tracking.recent_speed import RecentSpeed
from veldt.tracking.recording import Recording
from veldt.tracking.resource_usage import ResourceUsage
from veldt.tracking.stage_clock import STAGES, StageClock

# The counters of a run that begins once more, because it was lost before its first checkpoint.
AT_THE_START: Mapping[str, Any] = {"steps": 0, "episode_log": (0, 0)}
_LONG = 5_000  # steps of each env in which no episode ends, after which a note says so
_MAX_SHOWN = 3  # notes of one kind shown at once; a replaced process may cause one for each of its envs


class Monitor:
    """Counts, times and records. `counters` is its state in a checkpoint."""

    def __init__(
        self,
        config: TrainConfig,
        directory: RunDirectory,
        scores: ReturnTracker,
        clock: StageClock,
        recording: Recording,
        frames_per_step: int,
        counters: Mapping[str, Any] | None,
    ) -> None:
        self._config, self._directory, self._scores, self._clock = config, directory, scores, clock
        self._progress, self._loggers = recording.progress, recording.loggers
        self._resource_usage = ResourceUsage()
        self._frames_per_step = frames_per_step
        counters = counters or {}
        self.steps = int(counters.get("steps", 0))
        self._seconds_before = float(counters.get("seconds", 0.0))
        self._reset_steps = int(counters.get("reset_steps", 0))
        self._restarts = int(counters.get("env_restarts", 0))
        # When another target was reached says nothing of the one that a resume has set.
        has_target_of_before = counters.get("until", config.run.until) == config.run.until
        solved = counters.get("solved_at_seconds") if has_target_of_before else None
        self.solved_at_seconds = None if solved is None else float(solved)
        clock.seconds.update({stage: float(value) for stage, value in counters.get("stages", {}).items()})
        if counters:
            self._loggers.rewind(self.steps)
        position = _position(counters["episode_log"]) if counters else None
        self._episodes = EpisodeLog(directory.place, position, on_warning=self.note)
        self._began = self._logged_at = time.perf_counter()
        self._interval_steps, self._interval_began = self.steps, self._began
        self._interval_updates = 0 if counters == {} else None
        self._interval_episodes: list[Episode] = []
        self._recent_speed = RecentSpeed()
        self._learning_has_just_begun = False
        self._stages_logged = self._stage_seconds()
        self._shown: dict[str, Any] = {"step": self.steps}
        self._metrics: dict[str, float] = {}
        self._metric_counts: Counter[str] = Counter()  # updates that had the metric
        self._update_count = 0
        self._restarts_here = 0
        self._lag_sum = float(counters.get("lag_sum", 0.0))
        self._lag_count = int(counters.get("lag_count", 0))
        self._interval_lag, self._interval_lags = 0.0, list[float]()
        self._evaluation: dict[str, float] = {}
        self._has_warned = False
        # Atari has a time limit of its own, which is longer.
        self._has_noted_no_end = config.env.startswith(ATARI_PREFIX)
        self._saved: deque[int] = deque()  # steps of checkpoints that no callback knows yet
        self._callbacks = recording.callbacks
        self._callbacks.start(self.steps)

    @property
    def stop_reason(self) -> str | None:
        """Why a callback has asked to stop the run, or None."""
        return self._callbacks.context.stop_reason

    @property
    def seconds(self) -> float:
        """Training seconds, including those before a resume."""
        return self._seconds_before + time.perf_counter() - self._began

    @property
    def is_due(self) -> bool:
        """Whether the interval of a row is over."""
        return time.perf_counter() - self._logged_at >= self._config.run.log_every

    def count_steps(self, steps: int) -> None:
        """Adds steps."""
        self.steps += steps
        if steps:
            self._callbacks.call("on_rollout", self.steps)

    def count_resets(self, reset_steps: int, restarts: int) -> None:
        """Adds reset steps, and sets the number of env restarts since this process started."""
        self._reset_steps += reset_steps
        self._restarts_here = restarts

    def record_episode(self, episode: Episode, seed: int, counts: bool) -> None:
        """Records a finished episode; its reset was given `seed`, and it `counts` for the mean return or not."""
        self._interval_episodes.append(episode)
        self._episodes.append(
            env=episode.env_index,
            episode=episode.episode,
            seed=seed,
            step=self.steps,
            length=episode.length,
            score=episode.episode_return,
            actions=episode.actions,
            prefix=episode.prefix,
            counts=counts,
        )

    def record_updates(self, message: LearnerMetrics) -> None:
        """Adds the metrics of a learner's updates; each is averaged over those of the interval that had it."""
        count = message.count
        self._update_count += count
        self._lag_sum, self._lag_count = self._lag_sum + message.lag_sum, self._lag_count + count
        self._interval_lag += message.lag_sum
        self._interval_lags += [lag for lag in (message.lag_min, message.lag_max) if lag is not None]
        for name, value in message.sums.items():
            self._metrics[name] = self._metrics.get(name, 0.0) + value
            self._metric_counts[name] += message.counts.get(name, count)
        if count:
            self._callbacks.call("on_update", self.steps)

    def checkpoint_saved(self, step: int) -> None:
        """Notes that the checkpoint of `step` is on disk; may be called in the thread that has written it."""
        self._saved.append(step)

    def _announce_checkpoints(self) -> None:
        while self._saved:
            self._saved.popleft()
            self._callbacks.call("on_checkpoint", self.steps)

    def log(self, learning_rate: float, updates: int, others: Mapping[str, float]) -> None:
        """Writes a row, and refreshes the display. `others` are the metrics that roles have sent.

        VeldtError if the run's directory is not in its place any more.
        """
        self._directory.check_in_place()
        self._announce_checkpoints()
        now, stages = time.perf_counter(), self._interval_stages()
        training = max(now - self._interval_began - stages["time/evaluate_seconds"], 1e-9)
        self._measure_speed(training, updates)
        row = self._row(training, updates) | stages
        row |= {"train/learning_rate": learning_rate, "train/updates": updates}
        row |= {name: value / max(1, self._metric_counts[name]) for name, value in self._metrics.items()}
        row |= {with_prefix(name): value for name, value in others.items()} | self._evaluation
        self._log_row(row)
        self.check_finite(row)
        self._shown = row | self._shares() | self._speed_shown(updates)
        self._progress.update(self._shown)
        self._logged_at = self._interval_began = now
        self._interval_steps, self._interval_episodes, self._interval_updates = self.steps, [], updates
        self._metrics, self._update_count = {}, 0
        self._metric_counts.clear()
        self._interval_lag, self._interval_lags = 0.0, []
        self._evaluation = {}

    def refresh(self) -> None:
        """Refreshes the display when the next row is overdue: shows the last one, with the time of now."""
        if not self.is_due:
            return
        eta = self._shown.get("eta_seconds")
        since = time.perf_counter() - self._logged_at
        left = None if eta is None else max(0.0, eta - since)
        self._progress.refresh(self._shown | {"seconds": self.seconds, "eta_seconds": left})

    def _log_row(self, row: Mapping[str, float | None]) -> None:
        """Hands the measured metrics of a row to the loggers, and shows what these report."""
        metrics = {name: value for name, value in row.items() if value is not None and name != "step"}
        self._callbacks.call("on_log", self.steps, metrics)
        self._loggers.log(self.steps, metrics | self._callbacks.context.take_added(metrics))
        for text in self._loggers.take_problems():
            self.note(text, "logger")
        if not self._has_warned:
            self._warn(metrics)
        if not self._has_noted_no_end:
            self._note_no_end()

    def _warn(self, metrics: Mapping[str, float]) -> None:
        """Shows the algorithm's warning about its settings, once in a run, if the metrics give a reason for one."""
        warning = self._config.learn.warn_about(metrics)
        if warning is not None:
            self.note(f"warning: {warning}", "warning")
            self._has_warned = True

    def _note_no_end(self) -> None:
        """Says, once in a run, that none of its episodes has ended after many steps."""
        if self.steps > _LONG * self._config.envs.num_envs and not any(self._episodes.position()):
            self.note(f"no episode has ended in {self.steps:,} steps: {TO_SET_A_TIME_LIMIT}")
            self._has_noted_no_end = True

    def record_evaluation(
        self, result: Evaluation, steps: int, began_at: int, second: Evaluation | None = None
    ) -> None:
        """Records an evaluation of `steps` that began at step `began_at` of the run, and that of a second learner if
        there is one: shows a sentence now, and puts metrics into the next row."""
        self._evaluation = {}
        if second is not None and second.scores:
            self._evaluation["second/ep_return_mean"] = float(np.mean(second.scores))
        if not result.scores:
            self.note(f"evaluation at step {began_at:,}: no episode ended in {steps:,} steps", "evaluation")
            return
        scores = np.array(result.scores)
        played = counted(len(scores), "episode", "episodes")
        self.note(
            f"evaluation at step {began_at:,}: {played}, raw return {scores.mean():,.1f} "
            f"± {scores.std():,.1f} (min {scores.min():,.0f}, max {scores.max():,.0f})",
            kind="evaluation",
        )
        self._evaluation |= {
            "eval/ep_return_mean": float(scores.mean()),
            "eval/ep_return_std": float(scores.std()),
            "eval/ep_length_mean": float(np.mean(result.lengths)),
            "eval/episodes": float(len(scores)),
        }
        known = self._callbacks.context.metrics
        self._callbacks.call("on_evaluation", self.steps, {**known, **self._evaluation})

    def check_finite(self, metrics: Mapping[str, Any] | None = None) -> None:
        """Raises VeldtError if training has diverged: neither further training nor a checkpoint would be of use."""
        loss = float((metrics or self._metrics).get("train/loss", 0.0))
        if not math.isfinite(loss):
            raise diverged(f"the loss is {loss} at step {self.steps:,}")

    def note(self, text: str, kind: str = "note") -> None:
        """Shows a sentence to the user, and records it for the report."""
        self._progress.note(text)
        self._directory.write_event(self.steps, kind, text)

    def notes(self, texts: Sequence[str], kind: str) -> None:
        """Shows the first of several sentences to the user, and records all for the report."""
        for text in texts[:_MAX_SHOWN]:
            self.note(text, kind)
        for text in texts[_MAX_SHOWN:]:
            self._directory.write_event(self.steps, kind, text)
        if len(texts) > _MAX_SHOWN:
            self._progress.note(
                f"... and {len(texts) - _MAX_SHOWN} more like these (events.jsonl has them all)"
            )

    def counters(self) -> dict[str, Any]:
        """Returns its state for a checkpoint."""
        self._episodes.flush()
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "reset_steps": self._reset_steps,
            "env_restarts": self._restarts + self._restarts_here,
            "until": self._config.run.until,
            "solved_at_seconds": self.solved_at_seconds,
            "lag_sum": self._lag_sum,
            "lag_count": self._lag_count,
            "stages": dict(self._clock.seconds),
            "episode_log": list(self._episodes.position()),
        }

    def summary(self, reason: str) -> dict[str, Any]:
        """Writes and returns the run's headline metrics; `reason` is why it stopped (see `Outcome`)."""
        self._announce_checkpoints()
        self._callbacks.context.reason = reason
        config, seconds = self._config, self.seconds
        summary = {
            "recipe": config.recipe,
            "algorithm": config.algorithm,
            "system": config.system,
            "env": config.env,
            "seed": config.run.seed,
            "device": config.run.device,
            "precision": config.run.precision,
            "reason": reason,
            "steps": self.steps,
            "frames": self.steps * self._frames_per_step,
            "seconds": seconds,
            "steps_per_second": self.steps / max(seconds - self._clock.seconds["evaluate"], 1e-9),
            "episodes": self._scores.num_episodes,
            "ep_return_mean": self._scores.mean_return,
            "solved_at_seconds": self.solved_at_seconds,
            "policy_lag_mean": self._lag_sum / max(self._lag_count, 1),
            "plan_digest": plan_digest(config),
            "seconds_per_stage": self._stage_seconds(),
        }
        self._directory.write_summary(summary)
        return summary

    def close(self) -> None:
        self._episodes.close()
        self._progress.close()

    def _row(self, training: float, updates: int) -> dict[str, Any]:
        """Returns the metrics of the interval, with `training` seconds besides evaluations."""
        sps = (self.steps - self._interval_steps) / training
        # The first row after a resume has no earlier count of updates.
        before, episodes = self._interval_updates, self._interval_episodes
        return {
            "step": self.steps,
            "frames": self.steps * self._frames_per_step,
            "seconds": self.seconds,
            "time/steps_per_second": sps,
            "time/frames_per_second": sps * self._frames_per_step,
            "time/updates_per_second": None if before is None else (updates - before) / training,
            "rollout/episodes": self._scores.num_episodes,
            "rollout/ep_return_mean": self._scores.mean_return,
            "rollout/interval_return_mean": _mean([episode.episode_return for episode in episodes]),
            "rollout/interval_length_mean": _mean([episode.length for episode in episodes]),
            "train/policy_lag_mean": self._interval_lag / self._update_count if self._update_count else None,
            "train/policy_lag_min": min(self._interval_lags, default=None),
            "train/policy_lag_max": max(self._interval_lags, default=None),
            "rollout/reset_steps": self._reset_steps,
            "system/env_restarts": self._restarts + self._restarts_here,
            **self._resource_usage.metrics(),
        }

    def _stage_seconds(self) -> dict[str, float]:
        """Seconds by stage; `wait` is the time that no other stage accounts for (checkpoints, logging, resets)."""
        seconds = dict(self._clock.seconds)
        seconds["wait"] = max(
            0.0, self.seconds - sum(value for name, value in seconds.items() if name != "wait")
        )
        return seconds

    def _interval_stages(self) -> dict[str, float]:
        """Seconds by stage since the last row."""
        now, before = self._stage_seconds(), self._stages_logged
        # Another process may report its time late and in large amounts: what was logged as waiting meanwhile is not
        # logged once more, so that the rows add up to the time of the run.
        self._stages_logged = {stage: max(now[stage], before[stage]) for stage in STAGES}
        return {f"time/{stage}_seconds": max(0.0, now[stage] - before[stage]) for stage in STAGES}

    def _shares(self) -> dict[str, float]:
        seconds = self._stage_seconds()
        total = max(sum(seconds.values()), 1e-9)
        return {f"share_{stage}": seconds[stage] / total for stage in STAGES}

    def _measure_speed(self, seconds: float, updates: int) -> None:
        """Adds the interval of `seconds` to the speed that the display shows.

        Steps that only fill a replay buffer are faster than those to come; the first interval with updates has both.
        """
        steps, begins = self.steps - self._interval_steps, False
        if isinstance(self._config.learn, OffPolicyConfig):
            begins = updates > 0 and self._interval_updates == 0
            if steps and (begins or self._learning_has_just_begun):
                self._recent_speed.clear()
                self._learning_has_just_begun = False
        self._learning_has_just_begun |= begins
        self._recent_speed.add(steps, seconds)

    def _speed_shown(self, updates: int) -> dict[str, float | None]:
        """The speed of about the last 30 seconds, and the time that is left, which is None before the first update."""
        sps = self._recent_speed.steps_per_second
        return {
            "time/steps_per_second": sps,
            "time/frames_per_second": sps * self._frames_per_step,
            "eta_seconds": (self._config.run.steps - self.steps) / sps if sps > 0 and updates else None,
        }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _position(stored: Sequence[int]) -> tuple[int, int]:
    """Returns an episode log's position in a checkpoint; ValueError if it is none."""
    index, actions = map(int, stored)
    if min(index, actions) < 0:
        raise ValueError(f"its episodes end at {stored}")
    return index, actions
