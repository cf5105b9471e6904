"""A trained policy outside of training: actions, values and distributions, of one observation or of several."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import veldt
from run_state import SMALL, SMALL_REPLAYED

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", SMALL | {"env": "CartPole-v1"}),
    "recurrent": ("a2c", {"env": "CartPole-v1", "lstm": 8, "shared": True, "num_envs": 4, "horizon": 4}),
    "continuous": ("ppo", SMALL | {"env": "Pendulum-v1"}),
    "several choices": ("ppo", SMALL | {"env": "environments:multi_discrete"}),
    "dictionary": ("ppo", SMALL | {"env": "environments:dictionary"}),
    "dqn": ("dqn", SMALL_REPLAYED | {"env": "CartPole-v1"}),
    "c51": ("c51", SMALL_REPLAYED | {"env": "CartPole-v1"}),
    "ddpg": ("ddpg", SMALL_REPLAYED | {"env": "Pendulum-v1", "num_envs": 4}),
}


@pytest.fixture(scope="module", params=RUNS)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> veldt.Agent:
    recipe, settings = RUNS[request.param]
    run = tmp_path_factory.mktemp("agent") / "run"
    settings = {"steps": 100, "env_backend": "in-process"} | settings
    return veldt.load(veldt.train(recipe, run_dir=run, quiet=True, **settings).path)


def observations(agent: veldt.Agent, count: int) -> list[Any]:
    space = agent.make_env().observation_space
    space.seed(1)
    return [space.sample() for _ in range(count)]


def together(several: list[Any]) -> Any:
    if isinstance(several[0], dict):
        return {key: together([one[key] for one in several]) for key in several[0]}
    return np.stack(several)


def test_several_observations_get_the_actions_of_each(agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    agent.reset()
    actions = agent.act(together(several), greedy=True)
    for observation, action in zip(several, actions, strict=True):
        agent.reset()
        np.testing.assert_allclose(agent.act(observation, greedy=True), action, atol=1e-5)
        assert agent.make_env().action_space.contains(agent.act(observation))


def test_a_pickled_agent_acts_as_before(agent: veldt.Agent) -> None:
    (observation,) = observations(agent, 1)
    agent.reset()
    expected = agent.act(observation, greedy=True)
    copy = pickle.loads(pickle.dumps(agent))
    copy.reset()
    np.testing.assert_array_equal(copy.act(observation, greedy=True), expected)


def test_values(agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    value_N = agent.value(together(several))
    assert value_N.shape == (3,) and value_N.dtype == np.float32
    np.testing.assert_allclose([agent.value(one) for one in several], value_N, atol=1e-5)
    assert isinstance(agent.value(several[0]), float)
    if agent.config.algorithm in ("dqn", "c51"):
        values = agent.action_values(together(several))
        np.testing.assert_allclose(values.max(-1), value_N, atol=1e-5)
        assert values.argmax(-1).tolist() == agent.act(together(several), greedy=True).tolist()
        np.testing.assert_allclose(agent.action_values(several[1]), values[1], atol=1e-5)
    else:
        name = agent.config.algorithm
        instead = "value" if name == "ddpg" else "value or distribution"
        with pytest.raises(veldt.UsageError, match=f"{name} has no values of actions: ask for {instead}$"):
            agent.action_values(several[0])


def test_distributions(agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    if agent.config.algorithm in ("dqn", "c51", "ddpg"):
        with pytest.raises(veldt.UsageError, match="has no stochastic policy"):
            agent.distribution(several[0])
        return
    whole = agent.distribution(together(several))
    one = agent.distribution(several[2])
    for name, numbers in whole.items():
        np.testing.assert_allclose(one[name], numbers[2], atol=1e-5)
        if name.startswith("probabilities"):
            np.testing.assert_allclose(numbers.sum(-1), 1.0, atol=1e-5)
    action = agent.act(several[2], greedy=True)
    match agent.make_env().action_space:
        case gymnasium.spaces.Discrete() as space:
            assert action - space.start == one["probabilities"].argmax()
        case gymnasium.spaces.MultiDiscrete() as space:
            best = [int(numbers.argmax()) for numbers in one.values()]
            assert (action - space.start).flatten().tolist() == best
        case space:
            assert set(one) == {"mean", "deviation"} and one["mean"].shape == space.shape


def test_each_env_has_its_own_recurrent_state(tmp_path: Path) -> None:
    recipe, settings = RUNS["recurrent"]
    settings = {"steps": 100, "env_backend": "in-process"} | settings
    agent = veldt.load(veldt.train(recipe, run_dir=tmp_path / "run", quiet=True, **settings).path)
    own = agent.initial_recurrent_state(2).state_BM.shape
    assert own == (2, agent.initial_recurrent_state(1).state_BM.shape[1])
    several = together(observations(agent, 2))
    agent.act(several)
    assert agent._recurrent_state is not None
    before = agent._recurrent_state.state_BM.clone()
    agent.act(several)
    after = agent._recurrent_state.state_BM.clone()
    agent.reset(np.array([True, False]))
    agent.act(several)
    again = agent._recurrent_state.state_BM
    np.testing.assert_allclose(again[0], before[0], atol=1e-6)  # as after the first observation of an episode
    assert not np.allclose(again[1], before[1], atol=1e-6) and not np.allclose(after, before, atol=1e-6)


def test_a_mask_before_the_first_act_clears_nothing(agent: veldt.Agent) -> None:
    fresh = veldt.load(agent.path)
    fresh.reset(np.array([True, False, True]))
    fresh.act(together(observations(fresh, 3)))
    fresh.reset([True, False, True])
    with pytest.raises(ValueError, match="ended_N has 2 entries, and the last act got 3 observations"):
        fresh.reset(np.array([True, False]))
    with pytest.raises(ValueError, match=r"ended_N is int64 \[2\]: it must be bool \[N\]"):
        fresh.reset([0, 2])


def test_a_list_of_observations_is_a_batch(agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    agent.reset()
    expected = agent.act(together(several), greedy=True)
    agent.reset()
    np.testing.assert_array_equal(agent.act(several, greedy=True), expected)
    np.testing.assert_array_equal(agent.value(several), agent.value(together(several)))


def test_what_a_user_s_model_has_not_implemented_is_not_the_algorithm_s_lack(
    agent: veldt.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(*inputs: Any) -> None:
        raise NotImplementedError("no such layer")

    monkeypatch.setattr(agent, "_network", forward)
    with pytest.raises(NotImplementedError, match="no such layer"):
        agent.value(observations(agent, 1)[0])


def tensors(observation: Any) -> Any:
    """The observation with tensors for arrays, which require gradients where they can."""
    if isinstance(observation, dict):
        return {key: tensors(part) for key, part in observation.items()}
    tensor = torch.as_tensor(observation)
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def test_tensors_that_require_gradients_are_observations(agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    agent.reset()
    expected = agent.act(together(several), greedy=True)
    for batch in (tensors(together(several)), [tensors(one) for one in several]):
        agent.reset()
        np.testing.assert_array_equal(agent.act(batch, greedy=True), expected)


def test_a_number_too_large_for_a_float_is_refused(agent: veldt.Agent) -> None:
    space = agent.make_env().observation_space
    if not isinstance(space, gymnasium.spaces.Box) or space.dtype == np.uint8:
        pytest.skip("only an array of floats has such numbers")
    with pytest.raises(
        ValueError, match="the observation has dtype object, which does not convert to float32"
    ):
        agent.act([10**400] * space.shape[0])


def test_a_wrong_shape_is_refused(agent: veldt.Agent) -> None:
    if agent.source.name == "CartPole-v1":
        with pytest.raises(ValueError, match=r"has shape \(5,\), but the observation space declares \(4,\)"):
            agent.act(np.zeros(5))


def test_the_result_of_reset_or_step_is_no_observation(agent: veldt.Agent) -> None:
    env = agent.make_env()
    result = env.reset(seed=1)
    with pytest.raises(ValueError, match=r"give only its first element, observation, info = env\.reset\(\)"):
        agent.act(result)
    agent.act(result[0])
    with pytest.raises(
        ValueError, match=r"give only its first element, observation, reward, \.\.\. = env\.step"
    ):
        agent.value(env.step(env.action_space.sample()))


def float_arrays(observation: Any) -> list[np.ndarray]:
    if isinstance(observation, dict):
        return [array for part in observation.values() for array in float_arrays(part)]
    return [observation] if np.asarray(observation).dtype.kind == "f" else []


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_an_observation_that_is_not_finite_is_refused(number: float, agent: veldt.Agent) -> None:
    several = observations(agent, 3)
    for array in float_arrays(several[1]):
        array.flat[-1], index = number, [size - 1 for size in array.shape]
        for method in (agent.act, agent.value):
            with pytest.raises(ValueError, match=re.escape(f" has {number} at {index}: give finite numbers")):
                method(several[1])
            with pytest.raises(ValueError, match=re.escape(f" has {number} at {[1, *index]}: give finite")):
                method(together(several))
        array.flat[-1] = 0.0
