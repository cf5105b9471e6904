"""An algorithm written outside of veldt learns, in one process and in distributed systems."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import own_algorithm
import pytest
import torch
from own_algorithm import Follow, Twin, TwinConfig, TwinNetwork

import veldt
from veldt.algorithms.base import Loss
from veldt.algorithms.registry import ALGORITHMS, AlgorithmEntry
from veldt.algorithms.transitions import Transitions
from veldt.api import train_config
from veldt.config.gorila_settings import GorilaConfig
from veldt.config.system_settings import ApexConfig, RolesConfig, SynchronousConfig
from veldt.config.train_config import NetworkConfig, RunConfig, TrainConfig
from veldt.envs.settings import EnvConfig
from veldt.envs.source import resolve
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.errors import UsageError
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.learner import Learner
from veldt.learning.targets import TargetNetworks
from veldt.networks.build import build_torso
from veldt.networks.flat import FlatParameters
from veldt.replay.settings import ReplayConfig
from veldt.runs.checkpoints import CheckpointStore

ALGORITHMS._forget("own_algorithm")  # until a test of this file runs: other files list all algorithms

SPEC = EnvSpec({"": ArraySpec((1,), "float32")}, ActionSpec("box", low=(-1.0,), high=(1.0,)))
SYSTEMS: dict[str, RolesConfig] = {
    "synchronous": SynchronousConfig(),
    "apex": ApexConfig(actors=2),
    "gorila": GorilaConfig(learners=2, parameter_shards=2),
}


@pytest.fixture(autouse=True)
def registered() -> None:
    ALGORITHMS.add("twin", AlgorithmEntry(Twin, TwinConfig), "own_algorithm")


def config(system: str, steps: int, **changes: Any) -> TrainConfig:
    return TrainConfig(
        recipe="twin",
        algorithm="twin",
        system=system,
        env=resolve(Follow).name,
        run=RunConfig(
            **{"steps": steps, "threads": 1, "device": "cpu", "precision": "fp32", "seed": 3} | changes
        ),
        learn=TwinConfig(  # type: ignore[arg-type]
            learning_rate=3e-3,
            batch_size=64,
            training_intensity=16.0,
            learning_starts=256,
            gamma=0.9,
            clip_rewards=False,
        ),
        replay=ReplayConfig(buffer_size=4000),
        network=NetworkConfig(hidden=(32, 32)),
        envs=EnvConfig(num_envs=4, env_backend="in-process"),
        roles=SYSTEMS[system],
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_it_learns(system: str, tmp_path: Path) -> None:
    """By chance the mean return is 1/3."""
    run = train_config(config(system, 2500), resolve(Follow), run_dir=tmp_path / "run", quiet=True)
    result = veldt.evaluate(veldt.load(run.path, env=Follow), episodes=60, greedy=True)
    assert result.mean > 0.75, result
    groups = CheckpointStore(run.path / "checkpoints").newest(print).groups
    assert {"count.actor", "square/actor.0.layers.0.weight"} <= set(groups["optimiser"])
    names = list(groups["target" if "target" in groups else "target-0"])
    assert {name.partition(".")[0] for name in names} == {"slow/critic", "late/actor"}


def test_a_resumed_run_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    whole = train_config(config("synchronous", 480), resolve(Follow), run_dir=tmp_path / "whole", quiet=True)
    half = train_config(
        config("synchronous", 480, checkpoint_every=320),
        resolve(Follow),
        run_dir=tmp_path / "half",
        quiet=True,
    )
    newest = max((half.path / "checkpoints").iterdir())
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    veldt.resume(half.path, env=Follow, quiet=True)
    one, other = (CheckpointStore(run.path / "checkpoints").newest(print) for run in (whole, half))
    for group in ("weights", "optimiser", "target"):
        assert one.groups[group].keys() == other.groups[group].keys()
        for name, array in one.groups[group].items():
            assert np.array_equal(array, other.groups[group][name]), (group, name)


class Learning:
    """A learner with its target networks."""

    def __init__(self, algorithm: Twin | None = None) -> None:
        self.algorithm = algorithm or Twin(TwinConfig(learning_rate=1e-2), SPEC.action)
        self.network, self.parameters = self.make()
        self.targets = TargetNetworks(self.algorithm.target_networks, self.parameters, self.make)
        self.learner = Learner(self.algorithm, self.network, self.parameters, NoAllReduce(), self.targets)

    def make(self) -> tuple[TwinNetwork, FlatParameters]:
        torch.manual_seed(0)
        network = self.algorithm.network(functools.partial(build_torso, "mlp", SPEC, (8,)))
        assert isinstance(network, TwinNetwork)
        return network, FlatParameters(network)

    def update(self, seed: int) -> set[str]:
        """Makes an update; returns the names of the parts that moved."""
        before = self.learner.weights()
        generator = torch.Generator().manual_seed(seed)
        drawn = Transitions(
            *(torch.randn(32, *shape, generator=generator) for shape in ((1,), (1,), (), (), (1,), ())),
            noise=torch.zeros(3, 0),
            row_noise=torch.randn(32, 1, generator=generator),
        )
        batch = self.algorithm.targets(self.network, self.targets.forwards, drawn)
        self.learner.update(batch, 0.0, 1e-2)
        return {
            name.partition(".")[0]
            for name, array in self.learner.weights().items()
            if not np.array_equal(array, before[name])
        }


def test_each_group_moves_in_its_own_updates() -> None:
    own = Learning()
    assert [own.update(seed) for seed in range(4)] == [
        {"critic", "reward"},
        {"critic", "reward", "actor"},
        {"critic", "reward"},
        {"critic", "reward", "actor"},
    ]


def test_each_target_network_has_its_part_and_its_interval() -> None:
    own = Learning()
    slow, late = own.targets.forwards["slow"], own.targets.forwards["late"]
    observation, action = torch.ones(3, 1), torch.zeros(3, 1)
    start, start_late = own.learner.weights(), late(observation)
    own.update(0)
    expected = {name: 0.98 * start[name] + 0.02 * array for name, array in own.learner.weights().items()}
    own.update(1)
    expected = {name: 0.98 * expected[name] + 0.02 * array for name, array in own.learner.weights().items()}
    copies = own.learner.target_weights()
    assert {name for name in copies if name.startswith("slow/")} == {
        f"slow/{name}" for name in expected if name.startswith("critic.")
    }
    for name, array in expected.items():
        if name.startswith("critic."):
            np.testing.assert_allclose(copies[f"slow/{name}"], array, rtol=1e-5, atol=1e-7)
    # The rest of a target network is the learning network's.
    assert torch.equal(slow(observation), own.network(observation))
    assert torch.equal(late(observation, action), own.network(observation, action))
    assert torch.equal(late(observation), start_late) and not torch.equal(
        own.network(observation), start_late
    )
    for seed in range(2, 5):
        own.update(seed)
    assert torch.equal(late(observation), own.network(observation)), "after 5 updates"


def test_the_actors_loss_does_not_reach_the_critic() -> None:
    """With an actor's loss a million times as large, the critic moves bit for bit as before."""

    class Loud(Twin):
        def losses(self, *args: Any) -> Loss:
            losses = dict(super().losses(*args).by_group or {})
            return Loss.of_groups(
                {name: part * 1e6 if name == "actor" else part for name, part in losses.items()}
            )

    settings = TwinConfig(learning_rate=1e-2)
    quiet, loud = Learning(Twin(settings, SPEC.action)), Learning(Loud(settings, SPEC.action))
    for seed in range(4):  # later, the target network of the actor has moved
        assert quiet.update(seed) == loud.update(seed)
    for name, array in quiet.learner.weights().items():
        assert np.array_equal(array, loud.learner.weights()[name]) == (not name.startswith("actor.")), name


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        (
            {"actor": 1},
            "actor: that of critic is missing; return a loss for each group that moves in this update, critic",
        ),
        (
            {"critic": 1, "policy": 1},
            "losses of the parameter groups critic, policy: there is no group policy",
        ),
    ],
)
def test_losses_of_other_groups_than_there_are(losses: Any, sentence: str) -> None:
    own = Learning()
    made = Loss.of_groups({name: torch.zeros(()) for name in losses})
    own.algorithm.losses = lambda *_: made  # type: ignore[method-assign]
    with pytest.raises(UsageError, match=sentence):
        own.update(0)


def test_rows_have_noise_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Different in each row and update, and the same in a run of the same seed."""
    seen: list[torch.Tensor] = []

    def targets(self: Twin, forward: Any, target: Any, transitions: Transitions) -> Any:
        seen.append(transitions.row_noise)
        return original(self, forward, target, transitions)

    original = Twin.targets
    monkeypatch.setattr(own_algorithm.Twin, "targets", targets)
    for name in ("one", "other"):
        train_config(config("synchronous", 400), resolve(Follow), run_dir=tmp_path / name, quiet=True)
    half = len(seen) // 2
    assert half > 30 and all(noise.shape == (64, 1) for noise in seen)
    assert all(torch.equal(*pair) for pair in zip(seen[:half], seen[half:], strict=True))
    drawn = torch.cat(seen[:half])
    assert len(drawn.unique()) == len(drawn)
    assert abs(float(drawn.mean())) < 0.1 and abs(float(drawn.std()) - 1.0) < 0.1
