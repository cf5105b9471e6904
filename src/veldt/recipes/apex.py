"""Ape-X."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, Recipe, Settings, Sourced
from veldt.recipes.value import DDPG_SMALL

_HORGAN = "Horgan et al. 2018"

# Settings of actors, replay and learner, for every algorithm.
_APEX: Settings = {
    "actor_chunk": Sourced(50, f"{_HORGAN}, appendix C"),
    "actor_sync_interval": Sourced(100, f"{_HORGAN}, section 4.1: 400 frames"),
    "batches_ahead": Sourced(16, f"{_HORGAN}, section 4.1"),
    "replay": Sourced("prioritised", _HORGAN),
    "priority_exponent": Sourced(0.6, f"{_HORGAN}, section 4.1"),
    "importance_exponent": Sourced(0.4, f"{_HORGAN}, section 4.1"),
    "importance_exponent_end": Sourced(0.4, f"{_HORGAN}, section 4.1: constant"),
}

APEX_DQN = Recipe(
    name="apex-dqn",
    algorithm="dqn",
    system="apex",
    summary="Ape-X DQN: actors with different ε, distributed prioritised replay, one learner (Horgan et al. 2018)",
    atari={
        **_APEX,
        **EVALUATION,
        "steps": Sourced(50_000_000, f"{SA}, table 2 (5.7e9 in {_HORGAN})"),
        "num_envs": Sourced(32, f"{DEFAULT} (360 in {_HORGAN})"),
        "exploration": Sourced("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": Sourced(0.4, f"{_HORGAN}, section 4.1"),
        "batch_size": Sourced(512, f"{_HORGAN}, section 4.1"),
        "training_intensity": Sourced(8.0, f"{SA}, 5 (about 0.8 in {_HORGAN}, with 360 actors)"),
        "learning_rate": Sourced(6.25e-5, f"{_HORGAN}, appendix C: 0.00025 / 4"),
        "scale_learning_rate": Sourced("none", _HORGAN),
        "optimiser": Sourced("adam", f"uber-research/ape-x (centred RMSProp in {_HORGAN})"),
        "adam_epsilon": Sourced(1.5e-4, "RLlib, APEX; Hessel et al. 2018, table 1"),
        "n_step": Sourced(3, f"{_HORGAN}, appendix C"),
        "double": Sourced(True, _HORGAN),
        "dueling": Sourced(True, _HORGAN),
        "max_grad_norm": Sourced(40.0, f"{_HORGAN}, appendix C"),
        "gamma": Sourced(0.99, f"{_HORGAN}, appendix C"),
        "learning_starts": Sourced(50_000, f"{_HORGAN}, section 4.1"),
        "target_update_interval": Sourced(160_000, f"{_HORGAN}: 2,500 batches of 512, at this intensity"),
        "buffer_size": Sourced(1_000_000, f"Mnih et al. 2015 (2,000,000, soft, in {_HORGAN})"),
        "evaluation_epsilon": Sourced(0.001, "Hessel et al. 2018"),
        "network": Sourced("dqn", _HORGAN),
        "clip_rewards": Sourced(True, "Mnih et al. 2015"),
        "terminal_on_life_loss": Sourced(True, "Mnih et al. 2015"),
    },
    small={
        **_APEX,
        "steps": Sourced(1_000_000, "measured here"),
        "actors": Sourced(2, "measured here"),
        "num_envs": Sourced(16, "measured here"),
        "exploration": Sourced("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": Sourced(0.4, f"{_HORGAN}, section 4.1"),
        "batch_size": Sourced(128, "measured here"),
        "training_intensity": Sourced(8.0, "measured here"),
        "learning_starts": Sourced(1_000, "RL Zoo, dqn CartPole-v1"),
        "learning_rate": Sourced(
            "linear:1e-3:1e-4",
            "measured here (2.3e-3 in RL Zoo, dqn CartPole-v1): a constant one unlearns in the end",
        ),
        "scale_learning_rate": Sourced("none", "measured here"),
        "n_step": Sourced(10, "measured here"),
        "double": Sourced(True, _HORGAN),
        "dueling": Sourced(True, _HORGAN),
        "target_update_interval": Sourced(4_000, "measured here: 250 updates"),
        "evaluation_epsilon": Sourced(0.0, DEFAULT),
        "evaluator_share": Sourced(0.4, "measured here"),
        "publish_every": Sourced(4, "measured here"),
        "max_grad_norm": Sourced(10.0, "Wang et al. 2016"),
        "clip_rewards": Sourced(False, "RL Zoo: no reward clipping outside Atari"),
        "hidden": Sourced((128, 128), "measured here"),
        "layer_norm": Sourced(True, "measured here"),
        "priority_exponent": Sourced(0.3, f"measured here (0.6 in {_HORGAN})"),
        "gamma": Sourced(0.98, "measured here"),
        "buffer_size": Sourced(300_000, "measured here (100,000 in RL Zoo, dqn CartPole-v1)"),
        "checkpoint_every": Sourced(25_000, "measured here: about half a minute"),
    },
)

_APEX_DDPG_SMALL: Settings = {
    **DDPG_SMALL,
    **_APEX,
    "steps": Sourced(400_000, "measured here"),
    "actors": Sourced(4, "measured here"),
    "num_envs": Sourced(16, "measured here"),
    "batch_size": Sourced(256, f"{_HORGAN}, section 4.2"),
    "training_intensity": Sourced(64.0, "measured here"),
    "n_step": Sourced(5, f"{_HORGAN}, appendix D"),
    "action_gradient_clip": Sourced(1.0, f"{_HORGAN}, appendix D"),
    "exploration_noise": Sourced(0.3, f"{_HORGAN}, appendix D"),
    "evaluator_share": Sourced(0.1, "measured here"),
    "publish_every": Sourced(4, "measured here"),
}

APEX_DDPG = Recipe(
    name="apex-ddpg",
    algorithm="ddpg",
    system="apex",
    summary="Ape-X DPG: distributed replay and one learner for continuous actions (Horgan et al. 2018, section 4.2)",
    atari=_APEX_DDPG_SMALL,
    small=_APEX_DDPG_SMALL,
)
