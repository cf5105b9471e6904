"""A recurrent state belongs to its env: in every arrangement, over resets, over rollouts, in evaluation."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import veldt
from environments import Hashed, dictionary, scripted
from faulty_envs import Failing
from run_state import SMALL, newest
from veldt.agent import Agent, make_network
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.rollout import Rollout, bootstrap_forward, unroll_forward
from veldt.algorithms.vtrace import VTrace, VTraceConfig
from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.seeding import EVALUATION, derive_seed, episode_seed
from veldt.envs.source import resolve
from veldt.envs.stepper_settings import StepperSettings
from veldt.networks.recurrent import recurrent_size_of
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.sampling.sampler import ActingPolicy, InferencePlace, Sampler
from veldt.tracking.stage_clock import StageClock

STEPS, WIDTH = 7, 4
CPU = torch.device("cpu")


def _attend(network: Any) -> None:
    """Makes what a policy does depend much on what it remembers: heads as they are at first say next to nothing."""
    with torch.no_grad():
        network.heads.policy_head.weight.normal_(0, 3, generator=torch.Generator().manual_seed(0))


def _attentive(agent: Agent) -> Agent:
    _attend(agent._network)
    return agent


class Rollouts:
    """A sampler with an LSTM whose policy depends much on what it remembers."""

    def __init__(self, make: Any, resets: str, groups: int) -> None:
        given = {
            "lstm": 5,
            "shared": True,
            "hidden": (8,),
            "num_envs": WIDTH,
            "resets": resets,
            "horizon": STEPS,
            "random_start_steps": 6,
            "on_env_error": "restart",
        }
        source = resolve(make)
        config = with_settings(find("a2c").config(source.name), given)
        spec = probe_spec(source, config.atari)
        self.network = make_network(config, spec)
        self.waits = resets == "wait"
        _attend(self.network)
        algorithm = config.make_algorithm(spec.action)
        self.envs = make_vector_envs(
            StepperSettings(source, 5, config.envs, config.atari),
            spec,
            STEPS,
            Arrangement("in-process", 0, groups, (), "for a test"),
            stacks=True,
        )
        self.envs.start()
        self.sampler = Sampler(
            self.envs,
            ActingPolicy.of(algorithm, self.network),
            InferencePlace(CPU),
            5,
            StageClock(),
        )

    def next(self) -> Rollout:
        if self.sampler.phase:
            self.sampler.start_next_rollout()
            if self.waits:
                self.envs.finish_resets()
        self.sampler.sample(0)
        if self.waits:
            self.envs.reset_ended()
        return self.sampler.rollout()


def restarted() -> Failing:
    """Fails in the sixth step of every third episode."""
    return Failing("raise", None, 6, lengths=(3, 4, 10))


RESETS = pytest.mark.parametrize("resets", ["mid-batch", "wait"])
MAKE = pytest.mark.parametrize("make", [scripted, dictionary, restarted])


@RESETS
@MAKE
@pytest.mark.parametrize("groups", [1, 2])
def test_the_learners_policy_and_values_equal_those_computed_while_acting(
    make: Any, resets: str, groups: int
) -> None:
    """From the recurrent state at the rollout's start, over every reset in it, and of the row after it."""
    rollouts = Rollouts(make, resets, groups)
    carried = begun = 0
    for _ in range(12):
        rollout, network = rollouts.next(), rollouts.network
        recurrent = rollout.recurrent
        assert recurrent is not None and recurrent.last_BM is not None
        forward = unroll_forward(network, recurrent)
        with torch.no_grad():
            policy_NP, value_N = forward(rollout.observations.rows(None))
            torch.testing.assert_close(
                policy_NP, rollout.extras["policy"].flatten(0, 1), rtol=1e-4, atol=1e-5
            )
            torch.testing.assert_close(value_N, rollout.extras["value"].flatten(), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(forward.state_BM, recurrent.last_BM)  # type: ignore[attr-defined]
            last = rollout.observations.last()
            for mine, its in zip(forward(last), bootstrap_forward(network, recurrent)(last), strict=True):
                torch.testing.assert_close(mine, its)
        carried += int(recurrent.first_BM.any(-1).sum())
        begun += int(recurrent.begins_SB[:-1].sum())
    assert carried >= 11 * WIDTH / 2 and begun >= 2 * WIDTH


@RESETS
@MAKE
def test_v_trace_of_a_fresh_rollout_equals_a2c(make: Any, resets: str) -> None:
    """Its values are all of the network that learns, the last row's included: here the one that acted, as A2C's."""
    rollouts = Rollouts(make, resets, 1)
    settings: dict[str, Any] = {"clip_rewards": False, "gae_lambda": 1.0}
    action = rollouts.envs.trajectory.spec.action
    a2c = A2C(A2CConfig(**settings), action)
    vtrace = VTrace(VTraceConfig(**settings), action)
    for _ in range(6):
        rollout = rollouts.next()
        batch = a2c.targets(rollouts.network, rollout)
        late = dataclasses.replace(rollout, extras={"policy": rollout.extras["policy"]})
        anew = a2c.targets(rollouts.network, late)
        torch.testing.assert_close(anew.advantage, batch.advantage, rtol=1e-3, atol=1e-4)
        said = [
            {name: float(figure) for name, figure in own.loss(rollouts.network, each, 0.0).metrics.items()}
            for own, each in ((a2c, batch), (vtrace, rollout))
        ]
        assert said[1]["train/rho_mean"] == pytest.approx(1.0, abs=1e-4)
        for name, figure in said[0].items():
            assert said[1][name] == pytest.approx(figure, rel=1e-3, abs=1e-3), name


@RESETS
@MAKE
def test_alternating_groups_do_not_swap_recurrent_states(make: Any, resets: str) -> None:
    one, two = Rollouts(make, resets, 1), Rollouts(make, resets, 2)
    actions = set()
    for _ in range(12):
        a, b = one.next(), two.next()
        for name in ("action", "reward", "terminated", "truncated", "valid"):
            assert torch.equal(getattr(a, name), getattr(b, name)), name
        assert a.recurrent is not None and b.recurrent is not None
        torch.testing.assert_close(a.recurrent.first_BM, b.recurrent.first_BM, rtol=1e-4, atol=1e-5)
        actions |= set(a.action.flatten().tolist())
    assert len(actions) > 1


def test_the_recurrent_state_changes_the_policy_in_these_tests() -> None:
    """Else they would compare policies that look at nothing but their observation."""
    rollouts = Rollouts(scripted, "mid-batch", 1)
    rollouts.next()
    rollout = rollouts.next()
    assert rollout.recurrent is not None
    with torch.no_grad():
        forgetful = rollouts.network(rollout.observations.rows(None))[0]
    assert float((forgetful - rollout.extras["policy"].flatten(0, 1)).abs().max()) > 0.1


def test_a_network_without_a_recurrent_state_has_none_in_its_rollouts(tmp_path: Path) -> None:
    run = veldt.train("a2c", env=scripted, run_dir=tmp_path / "run", quiet=True, steps=100, **PLAIN)
    agent = veldt.load(run.path, env=scripted)
    assert recurrent_size_of(agent._network) == 0


PLAIN = {
    key: value
    for key, value in SMALL.items()
    if key not in ("batch_size", "minibatches", "epochs", "anneal_clip")
}
RECURRENT = PLAIN | {"lstm": 8, "shared": True, "learning_rate": 0.05}


def test_evaluation_and_act_begin_episodes_with_a_cleared_state(tmp_path: Path) -> None:
    """`act` by hand, one episode after the other, plays the evaluator's games if it is told where they begin."""
    env = functools.partial(Hashed, spaces.Box(-1.0, 1.0, (4,), np.float32), spaces.Discrete(4))
    run = veldt.train("a2c", env=env, run_dir=tmp_path / "run", quiet=True, steps=600, **RECURRENT)
    agent, carried_on = (_attentive(veldt.load(run.path, env=env)) for _ in range(2))
    result = veldt.evaluate(agent, episodes=9, seed=7, greedy=True)
    seed, width, own = derive_seed(7, EVALUATION), 4, env()
    states, differs = [], False
    for game in range(9):
        observation, _ = own.reset(seed=episode_seed(seed, game % width, game // width))
        agent.reset()
        score, over = 0.0, False
        while not over:
            action = agent.act(observation, greedy=True)
            carried_on.act(observation, greedy=True)
            assert agent._recurrent_state is not None and carried_on._recurrent_state is not None
            states.append(agent._recurrent_state.state_BM.clone())
            differs |= not torch.equal(states[-1], carried_on._recurrent_state.state_BM)
            observation, reward, terminated, truncated, _ = own.step(action)
            score, over = score + float(reward), terminated or truncated
        assert result.scores[game] == score, game
    assert differs  # without `reset`, it remembers the games before
    assert not np.allclose(states[0], states[-1])


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (
            "ppo",
            {"shared": True},
            "--lstm is 8, and ppo learns from steps out of their order.* a recipe that can \\(a2c, ",
        ),
        ("dqn", {}, "--lstm is 8, and dqn learns from steps out of their order.* a recipe that can \\(a2c, "),
        ("ddpg", {}, "--lstm is 8, and ddpg learns from steps out of their order"),
        ("a2c", {"shared": False}, "--lstm is 8, and policy and value have a torso each.*--shared"),
    ],
)
def test_a_recipe_that_cannot_learn_with_an_lstm_refuses_it(
    recipe: str, settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(veldt.UsageError, match=sentence) as refusal:
        veldt.train(recipe, env="Pendulum-v1", run_dir=tmp_path / "run", quiet=True, lstm=8, **settings)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_a_failed_run_has_a_checkpoint_of_its_last_step(tmp_path: Path) -> None:
    """The checkpoint of a failed rollout has the recurrent states from its beginning, not of where it failed."""

    def train(path: str, seeds: list[int]) -> Any:
        env = functools.partial(Failing, "raise", seeds, 5)
        return veldt.train(
            "a2c", env=env, run_dir=tmp_path / path, quiet=True, seed=3, steps=300, horizon=16, **RECURRENT
        )

    with pytest.raises(veldt.EnvError):
        train("failed", [episode_seed(3, 2, 4)])
    veldt.resume(tmp_path / "failed", env=functools.partial(Failing, "raise", [], 5), quiet=True)
    train("whole", [])
    failed, whole = newest(tmp_path / "failed"), newest(tmp_path / "whole")
    assert failed.step == whole.step
    for group in ("weights", "envs-0"):
        for name, array in whole.groups[group].items():
            np.testing.assert_array_equal(failed.groups[group][name], array)
    assert whole.groups["envs-0"]["initial_recurrent_state"].any()
