"""What follows from batch, training intensity and envs: phases, updates, target network, step size, Adam's ε."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from q_tables import DISCRETE

from veldt.algorithms.c51 import C51, C51Config, RainbowConfig
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.groups import TargetNetwork
from veldt.envs.spec import ActionSpec
from veldt.functional.updates import Adam, RMSProp
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.replay.settings import NStep

POWERS = st.sampled_from([2**k for k in range(12)])
PONG = "ALE/Pong-v5"
BOX = ActionSpec("box", low=(-1.0,), high=(1.0,), env_shape=(1,), env_dtype="float32")


@given(batch=POWERS, intensity=st.sampled_from([0.5, 1, 2, 4, 8, 16, 32, 256]), envs=st.integers(1, 600))
def test_a_phase_is_as_few_steps_as_one_update_needs(batch: int, intensity: float, envs: int) -> None:
    config = DQNConfig(batch_size=batch, training_intensity=intensity)
    steps = config.steps_per_phase(envs)
    assert DQN(config, DISCRETE).horizon(envs) == steps >= 1
    used = Fraction(intensity) * envs / batch  # updates that one step of every env is worth
    assert steps * used >= 1
    assert steps == 1 or (steps - 1) * used < 1
    assert config.updates_per_phase(envs) == pytest.approx(float(steps * used))


@pytest.mark.parametrize("horizon", [1, 3, 50])
def test_a_horizon_that_is_given_is_kept(horizon: int) -> None:
    config = DQNConfig(batch_size=32, training_intensity=8, horizon=horizon)
    assert config.steps_per_phase(1) == config.steps_per_phase(256) == horizon
    assert config.updates_per_phase(16) == pytest.approx(horizon * 16 * 8 / 32)


@pytest.mark.parametrize(
    ("every", "batch", "intensity", "updates"),
    [
        (10_000, 32, 8.0, 2500),  # Mnih et al. 2015: an update every 4 steps
        (10_000, 512, 8.0, 156),
        (10_000, 2048, 8.0, 39),
        (8_000, 32, 8.0, 2000),
        (10_000, 32, 1.0, 312),
        (0, 256, 256.0, 1),
        (3, 32, 1.0, 1),
    ],
)
def test_updates_between_moves_of_the_target_network(
    every: int, batch: int, intensity: float, updates: int
) -> None:
    config = DQNConfig(target_update_interval=every, batch_size=batch, training_intensity=intensity, tau=0.5)
    assert config.target_updates == updates
    assert DQN(config, DISCRETE).target_networks == {"target": TargetNetwork(updates, 0.5)}


def rate(recipe: str, **settings: Any) -> float:
    config = with_settings(find(recipe).config(PONG), settings)
    return config.make_algorithm(DISCRETE).learning_rate(0.3, 16)


def test_step_sizes_of_the_paper() -> None:
    """Stooke & Abbeel, A.3."""
    assert rate("dqn") == rate("dqn", batch_size=32) == 2.5e-4
    assert rate("dqn", batch_size=512) == pytest.approx(7.5e-4)
    assert rate("dqn", batch_size=1024) == rate("dqn", batch_size=2048) == pytest.approx(15e-4)
    assert rate("c51") == rate("c51", batch_size=32) == 2.5e-4
    for batch in (256, 512, 1024, 2048):
        assert rate("c51", batch_size=batch) == pytest.approx(4.2e-4)
    for batch in (32, 256, 512, 2048):
        assert rate("rainbow", batch_size=batch) == 6.25e-5
        assert rate("rainbow", batch_size=batch, scale_learning_rate="paper") == 6.25e-5


def test_between_the_papers_batches_the_step_grows_with_the_batch() -> None:
    """Linear in the logarithms; a smaller batch than the first has the first one's step size."""
    rates = [rate("dqn", batch_size=batch) for batch in (32, 64, 128, 256, 512)]
    ratios = [after / before for before, after in itertools.pairwise(rates)]
    assert ratios == pytest.approx([3 ** (1 / 4)] * 4)
    assert rate("dqn", batch_size=8) == 2.5e-4
    assert 2.5e-4 < rate("c51", batch_size=128) < 4.2e-4


def test_the_step_size_is_scaled_from_the_one_given_and_only_where_that_is_asked_for() -> None:
    assert rate("dqn", batch_size=512, learning_rate=1e-3) == pytest.approx(3e-3)
    assert rate("dqn", batch_size=512, scale_learning_rate="none") == 2.5e-4
    assert rate("c51", batch_size=512, scale_learning_rate="none") == 2.5e-4


def rule(recipe: str, **settings: Any) -> Any:
    return with_settings(find(recipe).config(PONG), settings).make_algorithm(DISCRETE).rule


def test_update_rules_of_the_paper() -> None:
    """Stooke & Abbeel, A.3: Adam's ε is 0.01 / L and 0.005 / L at a batch of L; DQN has RMSProp."""
    for batch in (32, 512, 2048):
        assert rule("c51", batch_size=batch) == Adam(epsilon=pytest.approx(0.01 / batch))
        assert rule("rainbow", batch_size=batch) == Adam(epsilon=pytest.approx(0.005 / batch))
    assert rule("rainbow") == Adam(epsilon=pytest.approx(0.005 / 512))
    assert rule("dqn") == RMSProp(decay=0.95, epsilon=1e-6, epsilon_inside=True)


def test_settings_of_the_update_rules_reach_them() -> None:
    assert rule("dqn", rmsprop_decay=0.8, rmsprop_epsilon=0.5) == RMSProp(0.8, 0.5, epsilon_inside=True)
    assert rule("c51", scale_adam_epsilon=False, adam_epsilon=0.25, batch_size=512) == Adam(epsilon=0.25)
    assert rule("dqn", optimiser="adam", adam_epsilon=0.25, scale_adam_epsilon=True, batch_size=512) == Adam(
        epsilon=0.25 / 512
    )
    assert DDPG(DDPGConfig(adam_epsilon=0.25), BOX).rule == Adam(epsilon=0.25)


@pytest.mark.parametrize(
    "make",
    [lambda **s: DQN(DQNConfig(**s), DISCRETE), lambda **s: DDPG(DDPGConfig(**s), BOX)],
    ids=["dqn", "ddpg"],
)
def test_settings_reach_the_algorithm(make: Any) -> None:
    own = make(
        batch_size=48,
        training_intensity=3.0,
        learning_starts=777,
        n_step=4,
        gamma=0.9,
        clip_rewards=False,
        terminal_on_life_loss=False,
        max_grad_norm=5.0,
        learning_rate=0.125,
        target_update_interval=160,
        tau=0.25,
    )
    assert (own.batch_size, own.intensity, own.learning_starts, own.max_grad_norm) == (48, 3.0, 777, 5.0)
    assert own.returns == NStep(4, 0.9, clip_rewards=False, terminal_on_life_loss=False)
    assert own.target_networks == {"target": TargetNetwork(10, 0.25)}
    assert own.update_rows(16) == 48
    assert make(clip_rewards=True, terminal_on_life_loss=True).returns == NStep(1, 0.99, True, True)


def test_the_range_of_rewards_is_that_of_the_atoms() -> None:
    assert C51(C51Config(value_min=-3.0, value_max=7.0), DISCRETE).reward_range == (-3.0, 7.0)
    assert DQN(DQNConfig(), DISCRETE).reward_range is None


def test_derived_sizes_are_printed() -> None:
    config = find("c51").config(PONG).learn
    assert isinstance(config, C51Config)
    told = {name: (value, unit) for name, value, unit, _ in config.derived(16, in_phases=True)}
    assert told == {
        "steps per phase": ("1", "steps/env"),
        "updates per phase": ("4", "updates"),
        "target moves every": ("2,500", "updates"),
        "scaled learning rate": ("0.00025", "per update"),
        "Adam's ε": ("0.0003125", "gradient"),  # 0.01 / 32
    }
    apart = {name: (value, unit) for name, value, unit, _ in config.derived(16, in_phases=False)}
    assert apart == {name: row for name, row in told.items() if "phase" not in name}
    assert {row[0]: row[1] for row in RainbowConfig(batch_size=512).derived(16, in_phases=True)}[
        "steps per phase"
    ] == "4"
