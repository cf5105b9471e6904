"""Gorila."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, From, Recipe
from veldt.recipes.value import OLD_GRADIENTS

_NAIR = "Nair et al. 2015"

GORILA = Recipe(
    name="gorila",
    algorithm="dqn",
    system="gorila",
    summary="Gorila DQN: bundles that act and learn, and a parameter server in shards (Nair et al. 2015)",
    atari={
        **EVALUATION,
        "steps": From(50_000_000, f"{SA}, table 2 (6 days in {_NAIR})"),
        "learners": From(8, f"{DEFAULT} (100 in {_NAIR})"),
        "num_simulators": From(8, f"{_NAIR}, section 4: one of each bundle"),
        "parameter_shards": From(4, f"{DEFAULT} (31 in {_NAIR})"),
        "pull_every": From(4, f"{DEFAULT}: once for each update (every step in {_NAIR})"),
        "fetch_every": From(1, f"{_NAIR}, section 4.1"),
        "max_staleness": From(200, f"{DEFAULT}: {_NAIR} has a threshold and does not say which"),
        "outlier_deviations": From(6.0, f"{DEFAULT}: 'several' in {_NAIR}, section 4.2"),
        "anneal_by": From("updates", f"{_NAIR}, section 5"),
        "preprocessing": From("84x84", f"{_NAIR}, section 5"),
        "network": From("dqn", f"{_NAIR}, section 5"),
        "batch": From(32, "Mnih et al. 2015"),
        "training_intensity": From(8.0, "Mnih et al. 2015: an update every 4 steps"),
        "learning_rate": From(5e-3, f"{DEFAULT}: not said in {_NAIR}"),
        "scale_learning_rate": From("none", DEFAULT),
        "optimiser": From("adagrad", f"{_NAIR}, section 4.2"),
        "target_every": From(240_000, f"{_NAIR}, section 5: 60,000 global updates"),
        "epsilon_end": From(0.1, f"{_NAIR}, section 5"),
        "epsilon_steps": From(4_000_000, f"{_NAIR}, section 5: 1,000,000 global updates"),
        "evaluation_epsilon": From(0.05, "Mnih et al. 2015"),
        "discount": From(0.99, "Mnih et al. 2015"),
        "learning_starts": From(50_000, "Mnih et al. 2015"),
        "replay_size": From(1_000_000, f"Mnih et al. 2015 (of each learner in {_NAIR})"),
        "clip_rewards": From(True, "Mnih et al. 2015"),
        "life_loss_ends": From(True, "Mnih et al. 2015"),
    },
    small={
        **OLD_GRADIENTS,
        "steps": From(500_000, "measured here"),
        "learners": From(8, "measured here"),
        "num_simulators": From(64, "measured here"),
        "parameter_shards": From(1, "measured here"),
        "pull_every": From(64, "measured here"),
        "max_staleness": From(200, DEFAULT),
        "outlier_deviations": From(6.0, DEFAULT),
        "batch": From(128, "measured here"),
        "horizon": From(8, "measured here"),
        "learning_starts": From(2_000, "measured here: 250 of each learner"),
        "scale_learning_rate": From("none", "measured here"),
        "double": From(True, "measured here"),
        "epsilon_end": From(0.05, "measured here"),
        "epsilon_steps": From(10_000, "measured here: 625 global updates"),
        "evaluation_epsilon": From(0.0, DEFAULT),
        "evaluator_share": From(0.2, "measured here"),
        "gradient_clip": From(10.0, "Wang et al. 2016"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "hidden": From((128, 128), "measured here"),
        "replay_size": From(200_000, "measured here: 25,000 of each learner"),
        "checkpoint_every": From(50_000, DEFAULT),
    },
)
