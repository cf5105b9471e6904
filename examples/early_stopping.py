"""A callback of your own: it stops a run whose return has not improved for a while."""

from __future__ import annotations

import math
from pathlib import Path

import veldt


class StopWithoutProgress(veldt.Callback):
    """Stops when the mean return of the last 100 episodes has not reached a new maximum for `patience` steps."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._best, self._best_at = -math.inf, 0

    def on_log(self, context: veldt.CallbackContext) -> None:
        mean = context.metrics.get("rollout/ep_return_mean", -math.inf)
        if mean > self._best:
            self._best, self._best_at = mean, context.step
        waited = context.step - self._best_at
        context.add_metrics({"steps_without_progress": waited})  # logged as callback/steps_without_progress
        if waited >= self._patience:
            context.stop(f"the return has not risen above {self._best:.1f} for {waited:,} steps")


def make_callback(run: Path) -> StopWithoutProgress:
    """Makes the callback of a run, for `--callback early_stopping:make_callback`; `run` is its directory."""
    return StopWithoutProgress(patience=50_000)


if __name__ == "__main__":
    stopped = veldt.train(
        "ppo", env="CartPole-v1", steps=500_000, callbacks=[StopWithoutProgress(patience=30_000)]
    )
    print(stopped.reason, stopped.summary["steps"], stopped.summary["ep_return_mean"])
