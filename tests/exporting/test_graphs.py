"""Exported graphs compute, without veldt, what the agent computes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import veldt
from environments import Hashed
from run_state import SMALL, SMALL_REPLAYED
from veldt.envs.from_gymnasium.observation_codec import ObservationCodec
from veldt.envs.spec import EnvSpec, action_spec
from veldt.exporting.policy_graph import ActionToEnv, PolicyGraph
from veldt.exporting.raw_observations import RawObservations

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
ROOT = Path(__file__).parents[2]

ATARI = {name: value for name, value in SMALL.items() if name != "hidden"} | {"network": "a3c"}
Runs = dict[str, tuple[str, dict[str, Any]]]
# In `make test`: the files of a policy take several seconds.
RUNS: Runs = {
    "normalised": ("ppo", SMALL | {"env": "Pendulum-v1", "normalise_observations": True}),
}
CORE = {"core": "own_parts:GRU", "shared": True, "num_envs": 4, "horizon": 4}
OTHERS: Runs = {
    "ppo": ("ppo", SMALL | {"env": "CartPole-v1"}),
    "dqn": ("dqn", SMALL_REPLAYED | {"env": "CartPole-v1"}),
    "rainbow": ("rainbow", SMALL_REPLAYED | {"env": "CartPole-v1", "noisy": True}),
    "ddpg": ("ddpg", SMALL_REPLAYED | {"env": "Pendulum-v1"}),
    "lstm": ("a2c", {"env": "CartPole-v1", "lstm": 8, "shared": True, "num_envs": 4, "horizon": 4}),
    "atari": ("ppo", ATARI | {"env": "ALE/Pong-v5", "max_episode_steps": 40}),
    "lopsided": ("ppo", SMALL | {"env": "environments:lopsided_box"}),
    "choices": ("ppo", SMALL | {"env": "environments:multi_discrete"}),
    "dictionary": ("ppo", SMALL | {"env": "environments:dictionary"}),
    "integers": ("ppo", SMALL | {"env": "environments:box_of_integers"}),
    "tuple": ("ppo", SMALL | {"env": "Blackjack-v1"}),
    "table": ("ppo", SMALL | {"env": "environments:table_of_choices"}),
    "switches": ("ppo", SMALL | {"env": "environments:switches"}),
    "own core": ("a2c", CORE | {"env": "CartPole-v1"}),
}
# As files, too: the others differ from these in their inputs only.
FILES = {name: run for name, run in OTHERS.items() if name not in ("integers", "choices", "table")}
Exported = tuple[veldt.Agent, list[Any], Path]


def column(observation: Any, name: str) -> Any:
    """The part of an observation for the input of this name: observation/camera, observation/0."""
    for key in name.split("/")[1:]:
        observation = observation[int(key) if isinstance(observation, tuple) else key]
    return observation


def trained(recipe: str, settings: dict[str, Any], run: Path) -> veldt.Agent:
    settings = {"steps": 100, "env_backend": "in-process"} | settings
    return veldt.load(veldt.train(recipe, run_dir=run, quiet=True, **settings).path)


def samples(agent: veldt.Agent, count: int) -> list[Any]:
    space = agent.make_env().observation_space
    space.seed(1)
    return [space.sample() for _ in range(count)]


def run_graphs(recipe: str, settings: dict[str, Any], folder: Path) -> Exported:
    """Returns a run's agent, the observations of three steps, and the run's export, whose graphs have run on these."""
    agent = trained(recipe, settings, folder / "run")
    made = veldt.export(agent.path, onnx=True, torch_export=True, video=False, episodes=1)
    steps = [samples(agent, 5)] * 3
    graph = json.loads((made.path / "config.json").read_text())["graph"]["inputs"]
    inputs = {
        f"{step}:{each['name']}": np.stack(
            [np.asarray(column(one, each["name"]), each["dtype"]) for one in observations]
        )
        for step, observations in enumerate(steps)
        for each in graph
        if each["name"].startswith("observation")
    }
    if state := [each for each in graph if each["name"] == "state"]:
        inputs["state_size"] = np.array(state[0]["shape"][0])
    np.savez(made.path / "inputs.npz", **inputs)
    for kind in ("onnx", "torch"):
        runner = Path(__file__).with_name("graph_runner.py")
        subprocess.run([sys.executable, str(runner), kind, str(made.path)], check=True, timeout=100)
    return agent, steps, made.path


INF = np.inf
BOXES = [
    spaces.Box(np.array([-INF, 3, -INF, -2], np.float32), np.array([INF, INF, -7, 1], np.float32)),
    spaces.Box(np.array([0.1, -INF]), np.array([0.3, 1e-9]), dtype=np.float64),
    spaces.Box(-2, 7, (2, 2), np.int64),
    spaces.Box(0, np.iinfo(np.int32).max - 1, (2,), np.int32),
    spaces.Box(0, 1, (3,), np.bool_),
]


@pytest.mark.parametrize("box", BOXES, ids=repr)
def test_continuous_actions_are_converted_as_by_the_agent(box: spaces.Box) -> None:
    spec = action_spec(box)
    stored = np.random.default_rng(0).normal(size=(500, *spec.shape)).astype(np.float32)
    expected = np.stack([spec.to_env(one) for one in stored])
    converted = ActionToEnv(spec)(torch.from_numpy(stored)).numpy()
    assert converted.dtype == expected.dtype and all(map(box.contains, converted))
    np.testing.assert_allclose(converted, expected, rtol=1e-6)


@pytest.mark.parametrize("name", [*RUNS, *(pytest.param(name, marks=pytest.mark.long) for name in FILES)])
def test_the_outputs_are_those_of_the_agent(name: str, tmp_path: Path) -> None:
    exported = run_graphs(*(RUNS | FILES)[name], tmp_path)
    check("onnx", *exported)
    check("torch", *exported)
    for file in ("policy.onnx", "policy.pt2"):
        assert str(ROOT).encode() not in (exported[2] / file).read_bytes(), "a path of this machine"


@pytest.mark.parametrize("name", OTHERS)
def test_graphs_before_they_are_a_file(name: str, tmp_path: Path) -> None:
    agent = trained(*OTHERS[name], tmp_path / "run")
    graph, observations = PolicyGraph(agent), samples(agent, 5)
    outputs = dict(zip([each.name for each in graph.outputs], graph(*graph.split(observations)), strict=True))
    np.testing.assert_allclose(outputs["action"], agent.act(observations, greedy=True), atol=1e-5)
    np.testing.assert_allclose(outputs["value"], agent.value(observations), atol=1e-5)


def check(kind: str, agent: veldt.Agent, steps: list[Any], path: Path) -> None:
    outputs = np.load(path / f"outputs-{kind}.npz")
    for key in [key for key in outputs if key.startswith("one:")]:
        np.testing.assert_allclose(outputs[key], outputs[key.replace("one:", "0:")][:1], atol=1e-5)
    agent.reset()
    for step, observations in enumerate(steps):
        got = {key[2:]: array for key, array in outputs.items() if key.startswith(f"{step}:")}
        actions = np.asarray(agent.act(observations, greedy=True))
        assert got["action"].shape == actions.shape
        np.testing.assert_allclose(got["action"], actions, atol=1e-5)
        if "next_state" in got:
            assert agent._recurrent_state is not None
            np.testing.assert_allclose(got["next_state"], agent._recurrent_state.state_BM, atol=1e-5)
            if step:  # the agent's other methods take every observation as the first of an episode
                continue
        np.testing.assert_allclose(got["value"], agent.value(observations), atol=1e-5)
        if "action_values" in got:
            np.testing.assert_allclose(got["action_values"], agent.action_values(observations), atol=1e-5)
        else:
            described = {} if agent.config.algorithm == "ddpg" else agent.distribution(observations)
            for key, expected in described.items():
                np.testing.assert_allclose(got[key], expected, atol=1e-5)
            if set(described) == {"probabilities"}:
                weights = np.exp(got["logits"])
                shares = weights / weights.sum(-1, keepdims=True)
                np.testing.assert_allclose(shares, described["probabilities"], atol=1e-5)


def test_a_network_that_no_graph_can_hold_is_one_sentence(tmp_path: Path) -> None:
    class Counting(torch.nn.Module):
        """Decides in Python by the values of a tensor."""

        def __init__(self, shape: Any) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(shape[0], 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) if float(x.sum()) > 0 else -self.layer(x)

    run = veldt.train(
        "ppo", env="CartPole-v1", network=Counting, run_dir=tmp_path / "run", quiet=True, steps=64,
        num_envs=4, batch_size=64, minibatches=2, env_backend="in-process",
    )  # fmt: skip
    with pytest.raises(veldt.VeldtError, match=r"torch\.export cannot capture the policy's network") as said:
        veldt.export(run.path, network=Counting, torch_export=True, video=False, episodes=1)
    assert "\n" not in str(said.value)
    assert not (run.path / "export").exists()


def meaning(space: spaces.Space[Any]) -> str:
    """Returns what a card says of an observation of `space`."""
    spec = EnvSpec(ObservationCodec(space).spec, action_spec(spaces.Discrete(2)))
    (array,) = RawObservations(Hashed(space, spaces.Discrete(2)), spec, is_atari=False).arrays
    return array.meaning


def test_choices_are_described_from_their_first_to_their_last_number() -> None:
    """They need not begin at 0."""
    assert meaning(spaces.MultiDiscrete([2, 3], start=[1, -4])) == "numbers from [1, -4] to [2, -2]"


@pytest.mark.parametrize(
    ("dtype", "most", "shape", "expected"),
    [
        (np.uint8, 255, (40, 40, 3), "pixels from 0 to 255"),
        (np.uint8, 255, (4,), "whole numbers from 0 to 255"),
        (np.uint8, 10, (40, 40, 3), "whole numbers from 0 to 10"),
        (np.int64, 255, (4,), "whole numbers"),
        (np.float64, 255, (4,), "real numbers"),
    ],
)
def test_numbers_are_described_by_their_type(
    dtype: Any, most: int, shape: tuple[int, ...], expected: str
) -> None:
    assert meaning(spaces.Box(0, most, shape, dtype)) == expected
