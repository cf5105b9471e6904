"""What each role and edge costs on this machine, in seconds of one core's own time (what others do there is not in it).

Each cost is a list of points (how many, seconds): rows of a batch, bytes, parameters, agents. `scaling_model.py` puts
lines through them. Edges are measured in `scaling_edges.py`, envs, inference and updates here.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from scaling_edges import Points, add, reduced, requests, shard, slots, store, wake, weights

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.devices import flush_denormals
from veldt.systems.planning.run_plan import make_run_plan
from veldt.systems.roles.sampler_learner import SamplerLearner, WorkerRank
from veldt.tracking.stage_clock import StageClock

BREAKOUT, CARTPOLE = "ALE/Breakout-v5", "CartPole-v1"
# By network and algorithm: a recipe, its environment, and settings of several sizes.
_UNITS: list[tuple[str, str, str, str, list[dict[str, Any]]]] = [
    ("a3c", "a2c", "a2c", BREAKOUT, [{"num_envs": n} for n in (2, 8, 16, 64)]),
    ("a3c", "ppo", "ppo", BREAKOUT, [{"batch_size": 512}]),
    ("a3c", "vtrace", "impala", BREAKOUT, [{"num_envs": n} for n in (8, 32)]),
    ("dqn", "dqn", "apex-dqn", BREAKOUT, [{"num_envs": 1, "batch_size": 32}]),
    ("dqn", "dqn", "apex-dqn", BREAKOUT, [{"num_envs": n, "batch_size": 8 * n} for n in (16, 64)]),
    ("small", "vtrace small", "impala", CARTPOLE, [{"num_envs": n} for n in (1, 8, 32, 256)]),
    ("small dqn", "dqn small", "apex-dqn", CARTPOLE, [{"num_envs": n, "batch_size": 128} for n in (1, 8)]),
]


class _CoreClock(StageClock):
    """Seconds of this process's own time."""

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begin = time.process_time()
        try:
            yield
        finally:
            self.seconds[stage] += time.process_time() - begin


@flush_denormals()
def measured(seconds: float) -> dict[str, Any]:
    """All costs, `seconds` (of a core) for each; and of what machine they are."""
    torch.set_num_threads(1)
    points: Points = {}
    sizes: dict[str, int] = {}
    for network, algorithm, recipe, env, several in _UNITS:
        for settings in several:
            print(f"{recipe}, {env}, {settings}", flush=True)
            sizes[network] = _unit(points, (network, algorithm), recipe, env, settings, seconds)
    for measure in (weights, slots, shard, store, requests):
        print(measure.__name__, flush=True)
        measure(points, seconds)
    print("processes", flush=True)
    points["wake"] = [(1, wake())]
    points["all-reduce"] = [(count * 4, reduced(count)) for count in (1_000, 1_000_000, 4_000_000)]
    machine = {"date": datetime.date.today().isoformat(), "hardware": _hardware(), "torch": torch.__version__}
    return machine | {"parameters": sizes, "seconds": points}


def _unit(
    points: Points, names: tuple[str, str], recipe: str, env: str, settings: dict[str, Any], seconds: float
) -> int:
    """Envs, inference and updates of a sampler-learner in this process; returns its network's parameters."""
    network, algorithm = names
    common = {"env_backend": "in-process", "alternate": "off", "threads": 1, "precision": "fp32"}
    config = find(recipe).config(env)
    if config.replay is not None:
        common |= {"buffer_size": 20_000, "learning_starts": 1_000}
    if not config.in_one_process:
        common.pop("envs"), common.pop("alternate")
        common |= {"actors": 1, "evaluator_share": 0.0}
    config = with_settings(config, common | {"random_start_steps": 0, "evaluate_every": 0} | settings)
    run_plan, clock = make_run_plan(RunRequest(config, resolve(env))), _CoreClock()
    unit, updates, steps = (
        SamplerLearner(run_plan, WorkerRank(1), clock, None, lambda text, about="note": None),
        0,
        0,
    )

    def updated(*_: object) -> None:
        nonlocal updates
        updates += 1

    try:
        unit.begin(None)
        while updates < 2:  # what is compiled is compiled then
            steps += unit.run_phase(steps, steps, updated).steps
        before, updates, made, phases = dict(clock.seconds), 0, 0, 0
        begin = time.process_time()
        while time.process_time() < begin + seconds or phases < 2 or not updates:
            made += unit.run_phase(steps + made, steps + made, updated).steps
            phases += 1
        took = time.process_time() - begin
        spent = {stage: value - before[stage] for stage, value in clock.seconds.items()}
        horizon, width = unit.slot.steps, unit.slot.width
        # Everything around envs is theirs: episodes that are followed, rows that are copied to the next rollout.
        around = took - spent["infer"] - spent["train"] - spent["replay"]
        learned = phases * horizon * width * getattr(config.learn, "epochs", 1) / updates
        rows = round(learned) if config.replay is None else config.learn.batch_size
        add(points, f"simulate {env}", 1, around / made)
        add(points, f"infer {network}", width, spent["infer"] / (phases * horizon))
        add(points, f"update {algorithm}", rows, spent["train"] / updates)
        return len(unit.parameters.fp32_params)
    finally:
        unit.close()


def _hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return f"{len(names)} x {names[0] if names else platform.processor()}, {platform.system()}"
