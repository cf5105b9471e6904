"""The dictionary of metrics has every metric that a run logs."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.report.curves import TITLES
from veldt.tracking.metric_names import METRICS, with_prefix
from veldt.tracking.metrics import read_metrics
from veldt.tracking.stage_clock import STAGES

ROOT = Path(__file__).parents[2]
PREFIXES = {metric.prefix for metric in METRICS.values()} - {""}
OFF_POLICY = {"learning_starts": 64, "batch_size": 16, "buffer_size": 1000, "training_intensity": 2.0}
RUNS: dict[str, dict[str, Any]] = {
    "a2c": {"env": "CartPole-v1"},
    "ppo": {"env": "CartPole-v1", "batch_size": 128, "minibatches": 2, "epochs": 2},
    "dqn": {"env": "CartPole-v1", **OFF_POLICY},
    "c51": {"env": "CartPole-v1", **OFF_POLICY, "replay": "prioritised"},
    "rainbow": {"env": "CartPole-v1", **OFF_POLICY},
    "ddpg": {"env": "Pendulum-v1", "num_envs": 2, **OFF_POLICY},
}


@functools.cache
def literals() -> set[str]:
    """The string literals of veldt's code that look like names of metrics."""
    name = re.compile(rf"(?:{'|'.join(PREFIXES)})/\w+")
    return {
        node.value
        for path in (ROOT / "src" / "veldt").rglob("*.py")
        if path.name != "metric_names.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and name.fullmatch(node.value)
    }


@pytest.mark.parametrize("recipe", RUNS)
def test_every_metric_of_a_run_is_in_the_dictionary(recipe: str, tmp_path: Path) -> None:
    settings = {
        "steps": 800,
        "threads": 1,
        "precision": "fp32",
        "env_backend": "in-process",
        "log_every": 0.0,
    }
    settings |= {"evaluate_every": 400, "evaluate_steps": 1000, "device": "cpu"} | RUNS[recipe]
    run = veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings)
    rows = read_metrics(run.path)
    logged = {name for row in rows for name in row}
    assert not logged - METRICS.keys()
    of_every_run = {metric.name for metric in METRICS.values() if metric.emitter == "every run"}
    assert not of_every_run - logged
    by_algorithm = {metric.name for metric in METRICS.values() if f"`{recipe}`" in metric.emitter}
    assert not by_algorithm - logged - {"rollout/epsilon"}
    assert {name for name in METRICS if name.startswith("eval/")} <= logged
    assert sum(row["train/updates"] for row in rows[-1:]) == run_updates(run.path) > 0


def run_updates(path: Path) -> int:
    """Updates of the run's newest checkpoint."""
    (*_, newest) = sorted((path / "checkpoints").glob("step-*"))
    return int(json.loads((newest / "manifest.json").read_text())["meta"]["rate_limiter"]["updates"][0])


def test_every_name_in_the_code_is_in_the_dictionary() -> None:
    """Or is the beginning of one; whole names that are built there are checked by `run_rows.metrics`."""
    assert not {name for name in literals() if not any(known.startswith(name) for known in METRICS)}


def test_the_dictionary_has_no_name_that_nothing_logs() -> None:
    built = {f"time/{stage}_seconds" for stage in STAGES}
    built |= {f"time/actor_{stage}_share" for stage in ("simulate", "infer", "replay", "wait")}
    built |= {f"system/{name}" for name in ("predictors", "trainers", "agents")}
    built |= {f"train/{group}_loss" for group in ("critic", "actor")}
    named = {name for name in METRICS if "/" in name}
    assert not named - built - literals()


def test_titles_of_charts_are_of_known_metrics() -> None:
    assert not TITLES.keys() - METRICS.keys()


def test_a_name_without_a_prefix_gets_the_prefix_train() -> None:
    assert with_prefix("policy_loss") == "train/policy_loss"
    assert with_prefix("mine/loss") == "mine/loss"
