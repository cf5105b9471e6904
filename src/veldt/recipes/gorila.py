"""Gorila."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, Recipe, Sourced
from veldt.recipes.value import DQN_BOX2D, DQN_TOY_TEXT, OLD_GRADIENTS

_NAIR = "Nair et al. 2015"

GORILA = Recipe(
    name="gorila",
    algorithm="dqn",
    system="gorila",
    summary="Gorila DQN: learners that act, and a parameter server that applies their gradients (Nair et al. 2015)",
    atari={
        **EVALUATION,
        "steps": Sourced(50_000_000, f"{SA}, table 2 (6 days in {_NAIR})"),
        "learners": Sourced(8, f"{DEFAULT} (100 in {_NAIR})"),
        "num_envs": Sourced(8, f"{_NAIR}, section 4: one of each bundle"),
        "parameter_shards": Sourced(4, f"{DEFAULT} (31 in {_NAIR})"),
        "actor_sync_interval": Sourced(4, f"{DEFAULT}: once for each update (every step in {_NAIR})"),
        "learner_sync_interval": Sourced(1, f"{_NAIR}, section 4.1"),
        "max_staleness": Sourced(200, f"{DEFAULT}: {_NAIR} has a threshold, but does not state it"),
        "outlier_deviations": Sourced(6.0, f"{DEFAULT}: 'several' in {_NAIR}, section 4.2"),
        "anneal_by": Sourced("updates", f"{_NAIR}, section 5"),
        "preprocessing": Sourced("84x84", f"{_NAIR}, section 5"),
        "network": Sourced("dqn", f"{_NAIR}, section 5"),
        "batch_size": Sourced(32, "Mnih et al. 2015"),
        "training_intensity": Sourced(8.0, "Mnih et al. 2015: an update every 4 steps"),
        "learning_rate": Sourced(5e-3, f"{DEFAULT}: not stated in {_NAIR}"),
        "scale_learning_rate": Sourced("none", DEFAULT),
        "optimiser": Sourced("adagrad", f"{_NAIR}, section 4.2"),
        "target_update_interval": Sourced(240_000, f"{_NAIR}, section 5: 60,000 global updates"),
        "epsilon_end": Sourced(0.1, f"{_NAIR}, section 5"),
        "epsilon_steps": Sourced(4_000_000, f"{_NAIR}, section 5: 1,000,000 global updates"),
        "evaluation_epsilon": Sourced(0.05, "Mnih et al. 2015"),
        "gamma": Sourced(0.99, "Mnih et al. 2015"),
        "learning_starts": Sourced(50_000, "Mnih et al. 2015"),
        "buffer_size": Sourced(1_000_000, f"Mnih et al. 2015 (of each learner in {_NAIR})"),
        "clip_rewards": Sourced(True, "Mnih et al. 2015"),
        "terminal_on_life_loss": Sourced(True, "Mnih et al. 2015"),
    },
    small={
        **OLD_GRADIENTS,
        "learning_rate": Sourced("linear:5e-4:5e-5", "measured here: with a constant one it unlearns later"),
        "steps": Sourced(500_000, "measured here"),
        "learners": Sourced(8, "measured here"),
        "num_envs": Sourced(64, "measured here"),
        "parameter_shards": Sourced(1, "measured here"),
        "actor_sync_interval": Sourced(64, "measured here"),
        "max_staleness": Sourced(200, DEFAULT),
        "outlier_deviations": Sourced(6.0, DEFAULT),
        "batch_size": Sourced(128, "measured here"),
        "horizon": Sourced(8, "measured here"),
        "learning_starts": Sourced(2_000, "measured here: 250 of each learner"),
        "scale_learning_rate": Sourced("none", "measured here"),
        "double": Sourced(True, "measured here"),
        # If exploration ends earlier, a seed of five reaches 475 by luck, and falls before it has learned for good.
        "exploration_fraction": Sourced(
            0.05, "measured here: with 0.02 one seed of five falls after it was solved"
        ),
        "epsilon_end": Sourced(0.05, "measured here"),
        "evaluation_epsilon": Sourced(0.0, DEFAULT),
        "evaluator_share": Sourced(0.2, "measured here"),
        "max_grad_norm": Sourced(10.0, "Wang et al. 2016"),
        "clip_rewards": Sourced(False, "RL Zoo: no reward clipping outside Atari"),
        "hidden": Sourced((128, 128), "measured here"),
        "buffer_size": Sourced(
            500_000, "measured here: all steps of the run; with fewer it forgets failures"
        ),
        "checkpoint_every": Sourced(50_000, DEFAULT),
    },
    presets={"toy_text": DQN_TOY_TEXT, "box2d": DQN_BOX2D},
)
