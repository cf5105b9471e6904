"""Records the events of a run: rows of metrics, progress, episodes, summary."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veldt.config.train_config import TrainConfig
from veldt.errors import diverged
from veldt.evaluation.evaluator import Evaluation
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import EpisodeLog
from veldt.sampling.episodes import Episode, ReturnTracker
from veldt.tracking.metrics import MetricsLog
from veldt.tracking.progress import Progress
from veldt.tracking.stage_clock import StageClock
from veldt.tracking.stages import STAGES

_MAX_SHOWN = 3  # notes of one kind shown at once; a replaced process may cause one for each of its envs


class Monitor:
    """Counts, times and records. `counters` is its state in a checkpoint."""

    def __init__(
        self,
        config: TrainConfig,
        directory: RunDirectory,
        scores: ReturnTracker,
        clock: StageClock,
        progress: Progress,
        frames_per_step: int,
        counters: Mapping[str, Any] | None,
    ) -> None:
        self._config, self._directory, self._scores, self._clock = config, directory, scores, clock
        self._progress, self._frames_per_step = progress, frames_per_step
        counters = counters or {}
        self.steps = int(counters.get("steps", 0))
        self._seconds_before = float(counters.get("seconds", 0.0))
        self._reset_steps = int(counters.get("reset_steps", 0))
        self._restarts = int(counters.get("env_restarts", 0))
        self.solved_at_seconds: float | None = counters.get("solved_at_seconds")
        clock.seconds.update(counters.get("stages", {}))
        resume_step = self.steps if counters else None
        self._metrics_log = MetricsLog(directory.path, resume_step, on_warning=self.note)
        position = tuple(counters["episode_log"]) if counters else None
        self._episodes = EpisodeLog(directory.path, position, on_warning=self.note)
        self._began = self._logged_at = time.perf_counter()
        self._interval_steps, self._interval_began = self.steps, self._began
        self._interval_episodes: list[Episode] = []
        self._stages_logged = self._stage_seconds()
        self._metrics: dict[str, float] = {}
        self._update_count = 0
        self._restarts_here = 0
        self._lag_sum, self._lag_count = (
            float(counters.get("lag_sum", 0.0)),
            int(counters.get("lag_count", 0)),
        )
        self._interval_lag, self._interval_lags = 0.0, list[float]()
        self._evaluation: dict[str, float] = {}

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

    def count_resets(self, reset_steps: int, restarts: int) -> None:
        """Adds reset steps, and sets the number of env restarts since this process started."""
        self._reset_steps += reset_steps
        self._restarts_here = restarts

    def record_episode(self, game: Episode, seed: int) -> None:
        """Records a finished episode; `seed` is the one its reset was given."""
        self._interval_episodes.append(game)
        self._episodes.append(
            env=game.env_index,
            episode=game.episode,
            seed=seed,
            step=self.steps,
            length=game.length,
            score=game.episode_return,
            actions=game.actions,
            prefix=game.prefix,
        )

    def record_updates(
        self, sums: Mapping[str, float], lag_sum: float, count: int, lag_range: Sequence[float]
    ) -> None:
        """Adds the sums of the metrics of `count` updates; they are averaged over the interval.

        `lag_sum` is the sum of each update's mean number of updates between the parameters that acted and those that
        are updated, `lag_range` the minimum and maximum over all rows, if any.
        """
        self._update_count += count
        self._lag_sum, self._lag_count = self._lag_sum + lag_sum, self._lag_count + count
        self._interval_lag += lag_sum
        self._interval_lags += lag_range
        for name, value in sums.items():
            self._metrics[name] = self._metrics.get(name, 0.0) + value

    def log(self, learning_rate: float, updates: int, experience: Mapping[str, float]) -> None:
        """Writes a row, and refreshes the display. `experience` are further metrics."""
        now = time.perf_counter()
        row = self._row(now) | {"learning_rate": learning_rate, "updates": updates, "policy_version": updates}
        count = max(1, self._update_count)
        row |= {name: value / count for name, value in self._metrics.items()}
        row |= {**experience, **self._evaluation}
        self._metrics_log.append(row)
        self.check_finite(row)
        self._progress.update(row | self._shares() | {"eta_seconds": self._eta(float(row["sps"] or 0))})
        self._logged_at = self._interval_began = now
        self._interval_steps, self._interval_episodes = self.steps, []
        self._metrics, self._update_count = {}, 0
        self._interval_lag, self._interval_lags = 0.0, []
        self._evaluation = {}

    def record_evaluation(self, result: Evaluation, steps: int) -> None:
        """Records an evaluation: shows a sentence now, and puts metrics into the next row."""
        if not result.scores:
            self.note(f"evaluation at step {self.steps:,}: no game ended in {steps:,} steps", "evaluation")
            return
        scores = np.array(result.scores)
        self.note(
            f"evaluation at step {self.steps:,}: {len(scores)} whole games, raw return {scores.mean():,.1f} "
            f"± {scores.std():,.1f} (min {scores.min():,.0f}, max {scores.max():,.0f})",
            kind="evaluation",
        )
        self._evaluation = {
            "evaluation/return_mean": float(scores.mean()),
            "evaluation/return_std": float(scores.std()),
            "evaluation/games": float(len(scores)),
        }

    def check_finite(self, metrics: Mapping[str, Any] | None = None) -> None:
        """Raises VeldtError if training has diverged: neither further training nor a checkpoint would be of use."""
        loss = float((metrics or self._metrics).get("loss/total", 0.0))
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
            "solved_at_seconds": self.solved_at_seconds,
            "lag_sum": self._lag_sum,
            "lag_count": self._lag_count,
            "stages": dict(self._clock.seconds),
            "episode_log": list(self._episodes.position()),
        }

    def summary(self, reason: str) -> dict[str, Any]:
        """Writes and returns the run's headline metrics; `reason` is why it stopped (see `Outcome`)."""
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
            "sps": self.steps / max(seconds - self._clock.seconds["evaluate"], 1e-9),
            "episodes": self._scores.num_episodes,
            "return_mean_100": self._scores.mean_return,
            "solved_at_seconds": self.solved_at_seconds,
            "policy_lag_mean": self._lag_sum / max(self._lag_count, 1),
            "seconds_per_stage": self._stage_seconds(),
        }
        self._directory.write_summary(summary)
        return summary

    def close(self) -> None:
        self._metrics_log.close()
        self._episodes.close()
        self._progress.close()

    def _row(self, now: float) -> dict[str, Any]:
        stages = self._interval_stages()
        training = now - self._interval_began - stages["seconds/evaluate"]
        sps = (self.steps - self._interval_steps) / max(training, 1e-9)
        episodes = self._interval_episodes
        return {
            "step": self.steps,
            "frames": self.steps * self._frames_per_step,
            "seconds": self.seconds,
            "sps": sps,
            "fps": sps * self._frames_per_step,
            "episodes": self._scores.num_episodes,
            "return_mean_100": self._scores.mean_return,
            "return_mean": float(np.mean([game.episode_return for game in episodes])) if episodes else None,
            "length_mean": float(np.mean([game.length for game in episodes])) if episodes else None,
            "policy_lag_mean": self._interval_lag / max(self._update_count, 1),
            "policy_lag_min": min(self._interval_lags, default=None),
            "policy_lag_max": max(self._interval_lags, default=None),
            "reset_steps": self._reset_steps,
            "env_restarts": self._restarts + self._restarts_here,
            **stages,
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
        self._stages_logged = now
        # (Another process may report its time late and in large amounts.)
        return {f"seconds/{stage}": max(0.0, now[stage] - before[stage]) for stage in STAGES}

    def _shares(self) -> dict[str, float]:
        seconds = self._stage_seconds()
        total = max(sum(seconds.values()), 1e-9)
        return {f"share_{stage}": seconds[stage] / total for stage in STAGES}

    def _eta(self, sps: float) -> float | None:
        return (self._config.run.steps - self.steps) / sps if sps > 0 else None
