"""What stands for the runs of a search, and a small search."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiny_runs import TINY
from veldt.experiments.experiment import Training
from veldt.tuning.request import TuneRequest
from veldt.tuning.space import Interval, choices

RATE = Interval(1e-4, 1e-2, True, False)
SPACE = {"learning_rate": RATE, "gamma": choices(0.9, 0.99)}
SMALL = TINY | {"steps": 512}
REQUEST = TuneRequest(recipe="ppo", env="CartPole-v1", settings=SMALL, space=SPACE)

# What stands for a run: it has a score that depends on the trial, and ends, fails or waits as it is told.
RUN = """
import json, pathlib, sys, time
run, how, score = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
if how not in ("ends", "waits", "has no score"):
    sys.exit(f"veldt: {how}")
run.mkdir(parents=True)
rows = [{"step": step, "rollout/ep_return_mean": score} for step in range(0, 513, 16)]
rows = rows[:-4] if how == "waits" else rows
(run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
if how == "waits":
    time.sleep(100)
score = "NaN" if how == "has no score" else score
(run / "summary.json").write_text(json.dumps({"reason": "steps", "steps": 512, "seconds": 1, "ep_return_mean": score}))
"""


class Stand(Training):
    """A training that `RUN` stands for; the environment's place holds how it ends."""

    def command(self, directory: Path) -> list[str]:
        return [sys.executable, "-c", RUN, str(directory), self.env, str(self.x)]


class Stands(TuneRequest):
    """A search whose trials are `RUN`; `how` of each trial by its number, "ends" for the others."""

    def training(self, name: str, values: Mapping[str, Any]) -> Training:
        number = int(name.removeprefix("trial-") or 0)
        env, score = HOW.get(number, ("ends", float(number)))
        return Stand(group=name, recipe="ppo", env=env, seed=1, settings=dict(values), x=score)


HOW: dict[int, tuple[str, float]] = {}
