"""IMPALA."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, From, Recipe

_ESPEHOLT = "Espeholt et al. 2018"

IMPALA = Recipe(
    name="impala",
    algorithm="vtrace",
    system="impala",
    summary="IMPALA: actors send unrolls, the learner corrects for their age by V-trace (Espeholt et al. 2018)",
    atari={
        **EVALUATION,
        "steps": From(50_000_000, f"{_ESPEHOLT}, table 4: 200 million frames"),
        "num_simulators": From(32, f"{_ESPEHOLT}, table G.1: a batch of 32 unrolls"),
        "horizon": From(20, f"{_ESPEHOLT}, table G.1"),
        "pull_every": From(1, f"{_ESPEHOLT}, section 3: before every unroll"),
        "learning_rate": From(6e-4, f"{_ESPEHOLT}, table G.1"),
        "anneal_learning_rate": From(True, f"{_ESPEHOLT}, table G.1"),
        "discount": From(0.99, f"{_ESPEHOLT}, table G.1"),
        "rho_bar": From(1.0, f"{_ESPEHOLT}, table G.1"),
        "c_bar": From(1.0, f"{_ESPEHOLT}, table G.1"),
        "value_weight": From(0.25, f"{_ESPEHOLT}, table G.1: 0.5 of half the squared error"),
        "entropy": From(0.01, f"{_ESPEHOLT}, table G.1"),
        "gradient_clip": From(0.0625, f"{_ESPEHOLT}, table G.1: 40 for the sum over 640 steps"),
        "rmsprop_epsilon": From(2.4e-8, f"{_ESPEHOLT}, table G.1: 0.01 for the sum over 640 steps"),
        "rmsprop_decay": From(0.99, "scalable_agent"),
        "network": From("a3c", f"{_ESPEHOLT}, figure 3: the shallow one has two convolutions"),
        "clip_rewards": From(True, f"{_ESPEHOLT}, table G.1"),
        "life_loss_ends": From(True, f"{_ESPEHOLT}, table G.1"),
    },
    small={
        "steps": From(1_000_000, "measured here"),
        "actors": From(8, "measured here"),
        "num_simulators": From(64, "measured here"),
        "horizon": From(16, "measured here"),
        "unrolls": From(16, "measured here"),
        "pull_every": From(1, f"{_ESPEHOLT}, section 3: before every unroll"),
        "optimiser": From("adam", "Espeholt et al. 2018 has RMSProp; Acme has Adam"),
        "learning_rate": From(1e-3, "measured here"),
        "anneal_learning_rate": From(False, "measured here"),
        "gae_lambda": From(0.95, "measured here"),
        "discount": From(0.99, f"{_ESPEHOLT}, table G.1"),
        "entropy": From(0.01, f"{_ESPEHOLT}, table G.1"),
        "value_weight": From(0.5, "measured here"),
        "gradient_clip": From(0.5, "RL Zoo, ppo CartPole-v1"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": From(False, "RL Zoo: policy and value on a network each"),
        "hidden": From((64, 64), "RL Zoo, ppo CartPole-v1"),
        "checkpoint_every": From(250_000, DEFAULT),
    },
)
