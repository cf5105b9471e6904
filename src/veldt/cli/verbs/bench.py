"""`veldt bench`: speed beside the machine's own limit, measured in the same run.

All results are agent steps per second (SPS); reset steps do not count.
"""

from __future__ import annotations

import dataclasses
import json as json_format
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from veldt import api
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.cli.verbs.bench_rates import bare_limit, infer_only, sampling_speed, simulate_only
from veldt.cli.verbs.bench_samplers import samplers_speed
from veldt.config.run_request import RunRequest
from veldt.config.versions import versions_for_run
from veldt.envs.source import resolve
from veldt.errors import UsageError
from veldt.recipes import find, plain_recipes
from veldt.recipes.overrides import with_settings
from veldt.runs.machine import describe_machine
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import describe_devices
from veldt.systems.planning.run_plan import RunPlan, make_run_plan
from veldt.tracking.console import output_console
from veldt.tracking.metrics import read_metrics


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement: `of_limit` compares it with `limit`, both in SPS."""

    what: str
    sps: float
    limit: str = ""
    of_limit: float | None = None


def report(
    what: str,
    recipe: str,
    env: str,
    num_envs: int,
    processes: int,
    alternate: str,
    resets: str,
    samplers: int,
    barrier: bool,
    seconds: float,
    json: bool,
) -> None:
    """Measures, and prints a table or one JSON object. `seconds` is the duration of each measurement."""
    _check(what, samplers, barrier, seconds)
    config = find(recipe).config(env)
    if not config.in_one_process:
        in_one = ", ".join(name for name, one in plain_recipes().items() if one.system == "synchronous")
        raise UsageError(
            f"--recipe is {recipe}, which is several processes: bench takes a synchronous recipe ({in_one}); a run's "
            "own metrics say where the time of roles goes"
        )
    settings: dict[str, Any] = {"alternate": alternate, "resets": resets}
    settings |= {"processes": processes} if processes else {}
    if num_envs:
        settings["num_envs"] = num_envs
    request = RunRequest(with_settings(config, settings), resolve(env))
    if samplers > 1:
        speed, plan_of_each = samplers_speed(request, samplers, seconds, is_synchronised=barrier)
        how = "waiting for each other after each rollout" if barrier else "free of each other"
        run_plan = make_run_plan(request)
        decisions = [f"{samplers} samplers, {how}, each:", *plan_of_each]
        rows = [Row("samplers together", speed)]
    else:
        run_plan = make_run_plan(request)
        decisions = list(run_plan.decisions)
        rows = sampling(run_plan, seconds) if what == "sampling" else training(run_plan, seconds)
    if json:
        metrics = {row.what: {"sps": row.sps, "of_limit": row.of_limit, "limit": row.limit} for row in rows}
        plan = {"decisions": decisions, "cores": len(allowed_cores()), "env": env, "recipe": recipe}
        plan |= {"samplers": samplers, "barrier": barrier, "versions": versions_for_run(config)}
        plan |= {"hardware": {**describe_machine(), **describe_devices(run_plan.device)}}
        print(json_format.dumps({"bench": what, **plan, "metrics": metrics}))
    else:
        _print_table(decisions, rows)


def _check(what: str, samplers: int, barrier: bool, seconds: float) -> None:
    """Raises UsageError where the values of flags do not go together."""
    if seconds <= 0:
        raise UsageError(f"--seconds is {seconds:g}: it must be more than 0")
    if samplers < 1:
        raise UsageError(f"--samplers is {samplers}: it must be at least 1")
    if samplers > 1 and what == "training":
        raise UsageError(f"--samplers is {samplers}: only `veldt bench sampling` takes more than one")
    if barrier and samplers == 1:
        raise UsageError("--barrier is for samplers that wait for each other: add --samplers 2, or more")


def _print_table(decisions: Sequence[str], rows: Sequence[Row]) -> None:
    console = output_console()
    for decision in decisions:
        console.print(decision, style="dim", highlight=False)
    table = Table("what", "SPS", "of its limit", "", box=None)
    for row in rows:
        share = "" if row.of_limit is None else f"{row.of_limit:.2f}"
        table.add_row(row.what, f"{row.sps:,.0f}", share, row.limit)
    console.print(table)


def sampling(run_plan: RunPlan, seconds: float) -> list[Row]:
    """Measures the env alone, stepping without inference, inference without stepping, and both together."""
    cores = len(allowed_cores())
    bare = bare_limit(run_plan.source, run_plan, seconds)
    simulate = simulate_only(run_plan, seconds)
    infer = infer_only(run_plan, seconds)
    both = sampling_speed(run_plan, seconds)
    harmonic = 1.0 / (1.0 / simulate + 1.0 / infer)
    return [
        Row("env alone, one core", bare),
        Row(
            "simulate, network-ready, no inference",
            simulate,
            f"{cores} x one core",
            simulate / (cores * bare),
        ),
        Row("inference alone", infer),
        Row("sampling", both, "1 / (1/simulate + 1/infer)", both / harmonic),
    ]


def training(run_plan: RunPlan, seconds: float) -> list[Row]:
    """Measures training from its first update on, sampling alone, and learning alone."""
    simulate = simulate_only(run_plan, seconds)
    both = sampling_speed(run_plan, seconds)
    run_plan = _learning_soon(run_plan)
    learn = run_plan.config.learn
    warm_up = learn.learning_starts if isinstance(learn, OffPolicyConfig) else 0
    phase = run_plan.horizon * run_plan.config.envs.num_envs
    # A run is limited by steps, not seconds: a short run measures how many steps take `seconds`.
    sps, _ = _train(run_plan, warm_up + max(3 * phase, 1000))
    sps, learning = _train(run_plan, warm_up + max(3 * phase, int(sps * seconds)))
    return [
        Row("simulate, network-ready, no inference", simulate),
        Row("sampling", both),
        Row("learning alone", learning),
        Row("training", sps, "1 / (1/sampling + 1/learning)", sps * (1.0 / both + 1.0 / learning)),
    ]


def _learning_soon(run_plan: RunPlan) -> RunPlan:
    """Returns the run plan with learning from replay starting as soon as the buffer holds a few batches."""
    learn = run_plan.config.learn
    if isinstance(learn, OffPolicyConfig):
        learn = dataclasses.replace(learn, learning_starts=min(4 * learn.batch_size, learn.learning_starts))
    run = dataclasses.replace(run_plan.config.run, log_every=0.0, evaluate_every=0, checkpoint_replay="none")
    return dataclasses.replace(run_plan, config=dataclasses.replace(run_plan.config, learn=learn, run=run))


def _train(run_plan: RunPlan, steps: int) -> tuple[float, float]:
    """Trains, and returns SPS since the first phase with an update: of the run, and of learning alone."""
    config = dataclasses.replace(run_plan.config, run=dataclasses.replace(run_plan.config.run, steps=steps))
    with tempfile.TemporaryDirectory() as scratch:
        run = api.train_config(config, run_plan.source, run_dir=Path(scratch) / "run", quiet=True)
        rows = [row for row in read_metrics(run.path) if row["train/updates"]]
    done = rows[-1]["step"] - rows[0]["step"]
    learning = sum(row["time/train_seconds"] + row["time/replay_seconds"] for row in rows[1:])
    return done / max(rows[-1]["seconds"] - rows[0]["seconds"], 1e-9), done / max(learning, 1e-9)
