"""`--cuda-graphs`: refused where there are none; elsewhere, results are close to those without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, SMALL_REPLAYED, arrays_of, newest
from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.systems.planning.run_plan import make_run_plan

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "ppo",
            "--cuda-graphs is on, and the device is cpu: CUDA graphs exist on CUDA devices only; take --device cuda, "
            "or leave --cuda-graphs out",
        ),
        (
            "ga3c",
            "--cuda-graphs is on, and ga3c cannot use CUDA graphs: its threads use one network at the same time, on "
            "batches of any size; leave it out, or take --compile",
        ),
    ],
)
def test_it_is_refused_where_there_are_no_cuda_graphs(recipe: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError) as refused:
        veldt.train(
            recipe, env="CartPole-v1", run_dir=tmp_path / "run", device="cpu", cuda_graphs=True, quiet=True
        )
    assert str(refused.value) == message
    assert not (tmp_path / "run").exists()


def test_the_network_of_a_sampler_learner_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[dict[str, Any]] = []

    def compiler(network: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        compiled.append(options)
        return network

    monkeypatch.setattr(torch, "compile", compiler)
    settings = {"hidden": (8,), "threads": 1, "precision": "fp32", "device": "cpu", "cuda_graphs": True}
    config = with_settings(find("ppo").config("CartPole-v1"), settings)
    plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    plan.forward(plan.network()[0], print)
    assert compiled == [{"mode": "reduce-overhead", "dynamic": False}]


def events_of(run: Path) -> str:
    """What the run wrote into events.jsonl: nothing if it has no such file."""
    events = run / "events.jsonl"
    return events.read_text() if events.exists() else ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=GPU) for name in ("ppo", "dqn", "c51")])
def test_on_a_gpu_weights_are_close_to_those_without(name: str, tmp_path: Path) -> None:
    settings = SMALL if name == "ppo" else SMALL_REPLAYED
    weights = []
    for cuda_graphs in (False, True):
        run = veldt.train(
            name,
            env="CartPole-v1",
            run_dir=tmp_path / str(cuda_graphs),
            quiet=True,
            **settings | {"device": "cuda", "steps": 200, "cuda_graphs": cuda_graphs},
        )
        assert "torch.compile failed" not in events_of(run.path)
        checkpoint = newest(run.path)
        weights.append({key: value for key, value in arrays_of(checkpoint).items() if key[:7] == "weights"})
    for key, value in weights[0].items():
        np.testing.assert_allclose(weights[1][key], value, rtol=1e-2, atol=1e-3, err_msg=key)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param("apex-dqn", {"actors": 2, "learning_starts": 200, "batch_size": 32}, marks=GPU),
        pytest.param("impala", {"actors": 2}, marks=GPU),
    ],
)
def test_on_a_gpu_a_learner_beside_its_actors_uses_them(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings = settings | {"num_envs": 4, "hidden": (16,), "device": "cuda", "cuda_graphs": True}
    run = veldt.train(name, env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings, steps=1_000)
    assert run.reason == "steps"
    assert "torch.compile failed" not in events_of(run.path)
