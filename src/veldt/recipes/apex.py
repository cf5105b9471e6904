"""Ape-X."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, From, Recipe, Settings
from veldt.recipes.value import DDPG_SMALL

_HORGAN = "Horgan et al. 2018"

# Of actors, replay and learner alike, whatever the algorithm.
_APEX: Settings = {
    "flush": From(50, f"{_HORGAN}, appendix C"),
    "pull_every": From(100, f"{_HORGAN}, section 4.1: 400 frames"),
    "batches_ahead": From(16, f"{_HORGAN}, section 4.1"),
    "replay": From("prioritised", _HORGAN),
    "priority_exponent": From(0.6, f"{_HORGAN}, section 4.1"),
    "importance_exponent": From(0.4, f"{_HORGAN}, section 4.1"),
    "importance_exponent_end": From(0.4, f"{_HORGAN}, section 4.1: constant"),
}

APEX_DQN = Recipe(
    name="apex-dqn",
    algorithm="dqn",
    system="apex",
    summary="Ape-X DQN: actors on a ladder of ε, distributed prioritised replay, one learner (Horgan et al. 2018)",
    atari={
        **_APEX,
        **EVALUATION,
        "steps": From(50_000_000, f"{SA}, table 2 (5.7e9 in {_HORGAN})"),
        "num_simulators": From(32, f"{DEFAULT} (360 in {_HORGAN})"),
        "exploration": From("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": From(0.4, f"{_HORGAN}, section 4.1"),
        "batch": From(512, f"{_HORGAN}, section 4.1"),
        "training_intensity": From(8.0, f"{SA}, 5 (about 0.8 in {_HORGAN}, with 360 actors)"),
        "learning_rate": From(6.25e-5, f"{_HORGAN}, appendix C: 0.00025 / 4"),
        "scale_learning_rate": From("none", _HORGAN),
        "optimiser": From("adam", f"uber-research/ape-x (centred RMSProp in {_HORGAN})"),
        "adam_epsilon": From(1.5e-4, "RLlib, APEX; Hessel et al. 2018, table 1"),
        "n_step": From(3, f"{_HORGAN}, appendix C"),
        "double": From(True, _HORGAN),
        "dueling": From(True, _HORGAN),
        "gradient_clip": From(40.0, f"{_HORGAN}, appendix C"),
        "discount": From(0.99, f"{_HORGAN}, appendix C"),
        "learning_starts": From(50_000, f"{_HORGAN}, section 4.1"),
        "target_every": From(160_000, f"{_HORGAN}: 2,500 batches of 512, at this intensity"),
        "replay_size": From(1_000_000, f"Mnih et al. 2015 (2,000,000, soft, in {_HORGAN})"),
        "evaluation_epsilon": From(0.001, "Hessel et al. 2018"),
        "network": From("dqn", _HORGAN),
        "clip_rewards": From(True, "Mnih et al. 2015"),
        "life_loss_ends": From(True, "Mnih et al. 2015"),
    },
    small={
        **_APEX,
        "steps": From(1_000_000, "measured here"),
        "actors": From(8, "measured here"),
        "num_simulators": From(64, "measured here"),
        "exploration": From("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": From(0.1, f"measured here (0.4 in {_HORGAN})"),
        "batch": From(128, "measured here"),
        "training_intensity": From(8.0, "measured here"),
        "learning_starts": From(1_000, "RL Zoo, dqn CartPole-v1"),
        "learning_rate": From(2e-3, "measured here (2.3e-3 in RL Zoo, dqn CartPole-v1)"),
        "scale_learning_rate": From("none", "measured here"),
        "n_step": From(10, "measured here"),
        "double": From(True, _HORGAN),
        "dueling": From(True, _HORGAN),
        "target_every": From(400, "measured here"),
        "evaluation_epsilon": From(0.0, DEFAULT),
        "evaluator_share": From(0.4, "measured here"),
        "publish_every": From(4, "measured here"),
        "gradient_clip": From(10.0, "Wang et al. 2016"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "hidden": From((128, 128), "measured here"),
        "layer_norm": From(True, "measured here"),
        "priority_exponent": From(0.3, f"measured here (0.6 in {_HORGAN})"),
        "discount": From(0.98, "measured here"),
        "replay_size": From(50_000, "measured here (100,000 in RL Zoo, dqn CartPole-v1)"),
        "checkpoint_every": From(25_000, "measured here: half a minute"),
    },
)

_APEX_DDPG_SMALL: Settings = {
    **DDPG_SMALL,
    **_APEX,
    "steps": From(400_000, "measured here"),
    "actors": From(4, "measured here"),
    "num_simulators": From(16, "measured here"),
    "batch": From(256, f"{_HORGAN}, section 4.2"),
    "training_intensity": From(64.0, "measured here"),
    "n_step": From(5, f"{_HORGAN}, appendix D"),
    "action_gradient_clip": From(1.0, f"{_HORGAN}, appendix D"),
    "exploration_noise": From(0.3, f"{_HORGAN}, appendix D"),
    "evaluator_share": From(0.1, "measured here"),
    "publish_every": From(4, "measured here"),
}

APEX_DDPG = Recipe(
    name="apex-ddpg",
    algorithm="ddpg",
    system="apex",
    summary="Ape-X DPG: the same for continuous actions (Horgan et al. 2018, section 4.2)",
    atari=_APEX_DDPG_SMALL,
    small=_APEX_DDPG_SMALL,
)
