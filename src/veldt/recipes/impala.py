"""IMPALA."""

from __future__ import annotations

from veldt.recipes.policy_gradient import ACTOR_CRITIC_BOX2D
from veldt.recipes.recipe import DEFAULT, EVALUATION, Recipe, Sourced

_ESPEHOLT = "Espeholt et al. 2018"

IMPALA = Recipe(
    name="impala",
    algorithm="vtrace",
    system="impala",
    summary="IMPALA: actors send rollouts, the learner corrects for their age with V-trace (Espeholt et al. 2018)",
    atari={
        **EVALUATION,
        "steps": Sourced(50_000_000, f"{_ESPEHOLT}, table 4: 200 million frames"),
        "num_envs": Sourced(32, f"{_ESPEHOLT}, table G.1: a batch of 32 unrolls"),
        "horizon": Sourced(20, f"{_ESPEHOLT}, table G.1"),
        "actor_sync_interval": Sourced(1, f"{_ESPEHOLT}, section 3: before every unroll"),
        "learning_rate": Sourced(6e-4, f"{_ESPEHOLT}, table G.1"),
        "anneal_learning_rate": Sourced(True, f"{_ESPEHOLT}, table G.1"),
        "gamma": Sourced(0.99, f"{_ESPEHOLT}, table G.1"),
        "rho_bar": Sourced(1.0, f"{_ESPEHOLT}, table G.1"),
        "c_bar": Sourced(1.0, f"{_ESPEHOLT}, table G.1"),
        "vf_coef": Sourced(0.25, f"{_ESPEHOLT}, table G.1: 0.5 of half the squared error"),
        "ent_coef": Sourced(0.01, f"{_ESPEHOLT}, table G.1"),
        "max_grad_norm": Sourced(0.0625, f"{_ESPEHOLT}, table G.1: 40 for the sum over 640 steps"),
        "rmsprop_epsilon": Sourced(2.4e-8, f"{_ESPEHOLT}, table G.1: 0.01 for the sum over 640 steps"),
        "rmsprop_decay": Sourced(0.99, "scalable_agent"),
        "network": Sourced("a3c", f"{_ESPEHOLT}, figure 3: the shallow one has two convolutions"),
        "clip_rewards": Sourced(True, f"{_ESPEHOLT}, table G.1"),
        "terminal_on_life_loss": Sourced(True, f"{_ESPEHOLT}, table G.1"),
    },
    # RMSProp without entropy, as in a2c on small environments, and policies that are few updates old: with Adam, it
    # forgets CartPole after it has solved it.
    small={
        "steps": Sourced(500_000, "measured here"),
        "actors": Sourced(4, "measured here"),
        "num_envs": Sourced(16, "measured here"),
        "horizon": Sourced(16, "measured here"),
        "unrolls": Sourced(8, "measured here"),
        "actor_sync_interval": Sourced(1, f"{_ESPEHOLT}, section 3: before every unroll"),
        "optimiser": Sourced("rmsprop", f"{_ESPEHOLT}, table G.1"),
        "learning_rate": Sourced(2e-3, "measured here"),
        "anneal_learning_rate": Sourced(False, "measured here"),
        "rmsprop_epsilon": Sourced(1e-5, "RL Zoo, a2c CartPole-v1"),
        "rmsprop_initial": Sourced(0.0, "measured here"),
        "gae_lambda": Sourced(0.95, "measured here"),
        "gamma": Sourced(0.98, "measured here; RL Zoo, ppo CartPole-v1"),
        "ent_coef": Sourced(0.0, "RL Zoo, a2c CartPole-v1"),
        "vf_coef": Sourced(0.5, "measured here"),
        "max_grad_norm": Sourced(0.5, "RL Zoo, ppo CartPole-v1"),
        "clip_rewards": Sourced(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": Sourced(False, "RL Zoo: separate policy and value networks"),
        "hidden": Sourced((64, 64), "RL Zoo, ppo CartPole-v1"),
        "checkpoint_every": Sourced(100_000, DEFAULT),
    },
    presets={
        "box2d": {**ACTOR_CRITIC_BOX2D, "horizon": Sourced(8, "measured here, LunarLander")},
    },
)
