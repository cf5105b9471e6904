"""A policy compiled by AOTInductor: torch alone loads it, and it computes what the policy does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from veldt.cli import main
from veldt.errors import UsageError
from veldt.exporting import compiled_graph

compiles = pytest.mark.skipif(
    shutil.which("g++") is None or len(torch.__file__.split()) > 1,
    reason="there is no C++ compiler, or torch is in a directory in which it cannot compile",
)
RUNNER = Path(__file__).with_name("graph_runner.py")


def trained(tmp_path: Path, **settings: Any) -> veldt.Agent:
    given: dict[str, Any] = {"env": "CartPole-v1", "steps": 128, "env_backend": "in-process"}
    return veldt.load(
        veldt.train("a2c", run_dir=tmp_path / "run", quiet=True, threads=1, **given | settings).path
    )


def outputs_without_veldt(made: Path, observations: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what the file says of the same observations in three steps, in a process that cannot import veldt."""
    given, found = made / "inputs.npz", made / "outputs-aot.npz"
    inputs = {f"{step}:observation": observations for step in range(3)}
    for array in json.loads((made / "config.json").read_text())["graph"]["inputs"]:
        if array["name"] == "state":
            inputs["state_size"] = np.array(array["shape"][0])
    np.savez(given, **inputs)
    subprocess.run(
        [sys.executable, str(RUNNER), "aot", str(made)],
        check=True,
        timeout=200,
        env={**os.environ, "CXX": "nosuch++"},  # it compiles nothing
    )
    outputs = dict(np.load(found))
    given.unlink()
    found.unlink()
    return outputs


@pytest.mark.timeout(400)  # to compile takes half a minute alone
@compiles
@pytest.mark.long
def test_the_compiled_policy_needs_torch_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    agent, out = trained(tmp_path), tmp_path / "out"
    main(["export", str(agent.path), "--out", str(out), "--aot-inductor", "--no-video", "--episodes", "1"])
    said, noise = capfd.readouterr()
    assert "policy-aot.pt2: at most " in said and "Warning" not in noise
    card = (out / "README.md").read_text()
    assert 'policy = torch._inductor.aoti_load_package("policy-aot.pt2")' in card
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    outputs = outputs_without_veldt(out, observations)
    np.testing.assert_array_equal(outputs["0:action"], agent.act(observations, greedy=True))
    np.testing.assert_allclose(outputs["0:value"], agent.value(observations), atol=1e-5)
    probabilities = agent.distribution(observations)["probabilities"]
    np.testing.assert_allclose(outputs["0:probabilities"], probabilities, atol=1e-5)
    np.testing.assert_allclose(outputs["one:value"], outputs["0:value"][:1], atol=1e-5)

    veldt.export(agent.path, out=out, video=False, episodes=1)  # it is replaced as any other export
    assert sorted(os.listdir(out)) == ["README.md", "config.json", "model.safetensors"]


@pytest.mark.long
@pytest.mark.timeout(400)
@compiles
@pytest.mark.parametrize(
    "settings",
    [{"env": "ALE/Pong-v5", "network": "small"}, {"lstm": 8, "shared": True, "hidden": (8,)}],
    ids=["pixels", "recurrent"],
)
def test_other_compiled_policies(settings: dict[str, Any], tmp_path: Path) -> None:
    agent = trained(tmp_path, num_envs=2, horizon=4, **settings)
    made = veldt.export(agent.path, aot_inductor=True, video=False, episodes=1)
    agent = veldt.load(made.path)  # which computes in fp32
    space = agent.make_env().observation_space
    space.seed(1)
    observations = np.stack([space.sample() for _ in range(3)])
    outputs = outputs_without_veldt(made.path, observations)
    np.testing.assert_allclose(outputs["0:value"], agent.value(observations), atol=1e-5)
    agent.reset()
    for step in range(3):
        np.testing.assert_array_equal(outputs[f"{step}:action"], agent.act(observations, greedy=True))


def test_without_a_compiler_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = trained(tmp_path)
    with (
        monkeypatch.context() as patched,
        pytest.raises(UsageError, match=r"path has a space; install veldt in"),
    ):
        patched.setenv("CXX", "cat")
        patched.setattr(compiled_graph.torch, "__file__", "/home/a b/torch/__init__.py")
        veldt.export(agent.path, aot_inductor=True)
    monkeypatch.setenv("CXX", "nosuch++")
    with pytest.raises(
        UsageError, match=r"needs a C\+\+ compiler, and there is no nosuch\+\+: install it, or"
    ):
        veldt.export(agent.path, aot_inductor=True)
    monkeypatch.delattr(compiled_graph.torch._inductor, "aoti_compile_and_package")
    with pytest.raises(UsageError, match=r"--aot-inductor needs torch 2.6 or later, and 2.* is installed"):
        veldt.export(agent.path, aot_inductor=True)
    assert not (agent.path / "export").exists()
