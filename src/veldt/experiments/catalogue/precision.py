"""Reduced precision, an open question of Stooke & Abbeel (section 6)."""

from __future__ import annotations

import numpy as np

from veldt.experiments.catalogue.common import ALONE, STOOKE, scores_table, small_env_differs
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, learning_curves, number
from veldt.experiments.results import Results, interval

_SMALL_STEPS, _PAPER_STEPS = 100_000, 25_000_000


def _jobs(request: Request) -> list[Training]:
    envs = request.envs("CartPole-v1" if request.is_small else "ALE/Breakout-v5")
    steps = _SMALL_STEPS if request.is_small else _PAPER_STEPS
    return [
        Training(
            group=precision,
            recipe="ppo",
            env=env,
            seed=seed,
            settings={**ALONE, "steps": steps, "precision": precision},
        )
        for env in envs
        for precision in ("fp32", "bf16")
        for seed in request.seed_range
    ]


def _draw(results: Results) -> Exhibit:
    parts = []
    for chart, groups in results.charts().items():
        full, half = ({run.job.seed: run.score for run in groups.get(name, [])} for name in ("fp32", "bf16"))
        differences = [half[seed] - full[seed] for seed in full.keys() & half.keys()]
        mean, low, high = interval(differences) if differences else (np.nan, np.nan, np.nan)
        parts.append(f"{chart}: bf16 minus fp32 is {number(mean, low, high)}")
    says = "; ".join(parts) + ". The paper leaves open whether reduced precision harms learning."
    return Exhibit(says, [learning_curves(results)], [scores_table(results)])


PRECISION = Experiment(
    name="precision",
    source=f"{STOOKE}, section 6 (an open question)",
    shows="PPO with the torso in bf16 against fp32, on the same seeds.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: small_env_differs(request, _SMALL_STEPS, "Atari games"),
    seeds=(5, 5),
    hours=0.027,
)
