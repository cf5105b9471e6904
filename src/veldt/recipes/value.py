"""Recipes that learn from a replay memory."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, From, Recipe, Settings

# What Q-learning recipes have in common on Atari.
_Q_ATARI: Settings = {
    "num_simulators": From(16, f"{SA}, 5.2: scores hold up to 200 and more"),
    "training_intensity": From(8.0, f"{SA}, 5: the reference for DQN and its variants"),
    "discount": From(0.99, "Mnih et al. 2015"),
    "replay_size": From(1_000_000, "Mnih et al. 2015"),
    "network": From("dqn", f"{SA}, A.1: DQN-Net"),
    "clip_rewards": From(True, "Mnih et al. 2015"),
    "life_loss_ends": From(True, "Mnih et al. 2015; accel_rl"),
    **EVALUATION,
    "steps": From(50_000_000, f"{SA}, table 2"),
}
_Q_SMALL: Settings = {
    "steps": From(200_000, "measured here"),
    "num_simulators": From(16, "measured here"),
    "batch": From(128, "measured here (64 in RL Zoo, dqn CartPole-v1)"),
    "training_intensity": From(32.0, "RL Zoo, dqn CartPole-v1: 128 updates of 64 for 256 steps"),
    "horizon": From(8, "measured here: some updates a phase, as RL Zoo has 128"),
    "learning_starts": From(1_000, "RL Zoo, dqn CartPole-v1"),
    "learning_rate": From(1e-3, "measured here (2.3e-3 in RL Zoo, dqn CartPole-v1)"),
    "scale_learning_rate": From("none", "measured here"),
    "n_step": From(5, "measured here"),
    "double": From(True, "measured here"),
    "target_every": From(1_000, "measured here"),
    "epsilon_end": From(0.04, "RL Zoo, dqn CartPole-v1"),
    "epsilon_steps": From(8_000, "RL Zoo, dqn CartPole-v1: 16% of 50,000 steps"),
    "evaluation_epsilon": From(0.0, DEFAULT),
    "gradient_clip": From(10.0, "Wang et al. 2016"),
    "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
    "hidden": From((128, 128), "measured here (256 256 in RL Zoo, dqn CartPole-v1)"),
    "replay_size": From(100_000, "RL Zoo, dqn CartPole-v1"),
    "checkpoint_every": From(50_000, DEFAULT),
}

# Q-learning on small environments where learners wait for nobody, so that gradients are several updates old.
OLD_GRADIENTS: Settings = {
    "training_intensity": From(8.0, "measured here"),
    "learning_rate": From(5e-4, "measured here"),
    "optimiser": From("rmsprop", "measured here: by Adam's momentum of old gradients Q-values diverge"),
    "n_step": From(10, "measured here"),
    "dueling": From(True, "measured here"),
    "layer_norm": From(True, "measured here: Q-values stay within their bounds"),
    "target_every": From(800, "measured here: 50 updates of all"),
    "discount": From(0.98, "measured here"),
}

DQN = Recipe(
    name="dqn",
    algorithm="dqn",
    system="synchronous",
    summary="Deep Q-networks (Mnih et al. 2015), batches of 32 up to 2,048 (Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch": From(32, "Mnih et al. 2015 (--batch 512 is the paper's DQN-512)"),
        "learning_rate": From(2.5e-4, f"{SA}, A.3: for a batch of 32"),
        "scale_learning_rate": From("paper", f"{SA}, A.3: 2.5, 7.5, 15e-4 for 32, 512, 1,024"),
        "optimiser": From("rmsprop", f"{SA}, appendix D: without momentum, not centred; accel_rl"),
        "rmsprop_decay": From(0.95, "Mnih et al. 2015; accel_rl"),
        "rmsprop_epsilon": From(1e-6, "accel_rl (0.01 for a summed loss in Mnih et al. 2015)"),
        "learning_starts": From(50_000, "Mnih et al. 2015"),
        "target_every": From(10_000, "dqn_zoo, accel_rl (10,000 updates in Mnih et al. 2015)"),
        "epsilon_end": From(0.1, "Mnih et al. 2015"),
        "epsilon_steps": From(1_000_000, "Mnih et al. 2015"),
        "evaluation_epsilon": From(0.05, "Mnih et al. 2015"),
    },
    small=_Q_SMALL,
)

ASYNC_DQN = Recipe(
    name="async-dqn",
    algorithm="dqn",
    system="asynchronous",
    summary="DQN by learners with a memory each that bring gradients to a central store (Stooke & Abbeel 2018)",
    atari={
        **DQN.atari,
        "learners": From(4, f"{SA}, 5.3: up to 4 learn well"),
        "num_simulators": From(64, f"{SA}, 5.2: 16 of each learner"),
        "batch": From(512, f"{SA}, 5.3"),
    },
    small={
        **_Q_SMALL,
        **OLD_GRADIENTS,
        "steps": From(400_000, "measured here"),
        "learners": From(4, f"{SA}, 5.3: up to 4 learn well"),
        "num_simulators": From(32, "measured here: 8 of each of 4 learners"),
        "learning_starts": From(1_024, f"{DEFAULT}: a batch for each of up to 8 learners"),
        "epsilon_end": From(0.02, "measured here (0.04 in RL Zoo, dqn CartPole-v1)"),
        "replay_size": From(400_000, "measured here: all that was seen, or it forgets how to fail"),
    },
)

C51 = Recipe(
    name="c51",
    algorithm="c51",
    system="synchronous",
    summary="Categorical DQN (Bellemare et al. 2017), batches of 32 up to 2,048 (Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch": From(32, "Bellemare et al. 2017 (--batch 2048 is the paper's CatDQN-2k)"),
        "learning_rate": From(2.5e-4, "Bellemare et al. 2017, for a batch of 32"),
        "scale_learning_rate": From("paper", f"{SA}, A.3: 4.2e-4 for 256 and above"),
        "optimiser": From("adam", "Bellemare et al. 2017"),
        "adam_epsilon": From(0.01, f"{SA}, A.3: 0.01 / batch"),
        "scale_adam_epsilon": From(True, f"{SA}, A.3"),
        "learning_starts": From(50_000, "dqn_zoo"),
        "target_every": From(10_000, "dqn_zoo, accel_rl"),
        "epsilon_end": From(0.01, "Bellemare et al. 2017"),
        "epsilon_steps": From(1_000_000, "dqn_zoo"),
        "evaluation_epsilon": From(0.001, "Bellemare et al. 2017"),
        "atoms": From(51, "Bellemare et al. 2017"),
        "value_min": From(-10.0, "Bellemare et al. 2017"),
        "value_max": From(10.0, "Bellemare et al. 2017"),
    },
    small={
        **_Q_SMALL,
        "value_min": From(-100.0, "CleanRL, c51"),
        "value_max": From(100.0, "CleanRL, c51"),
        "atoms": From(101, "CleanRL, c51"),
    },
)

RAINBOW = Recipe(
    name="rainbow",
    algorithm="rainbow",
    system="synchronous",
    summary="ε-Rainbow: double, dueling, prioritised, n-step, categorical (Hessel et al. 2018; Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch": From(512, f"{SA}, 5.3 (32 in Hessel et al. 2018)"),
        "learning_rate": From(6.25e-5, "Hessel et al. 2018, table 1"),
        "scale_learning_rate": From("none", f"{SA}, A.3"),
        "optimiser": From("adam", "Hessel et al. 2018, table 1"),
        "adam_epsilon": From(0.005, f"{SA}, A.3: 0.005 / batch"),
        "scale_adam_epsilon": From(True, f"{SA}, A.3"),
        "n_step": From(3, "Hessel et al. 2018, table 1"),
        "double": From(True, "Hessel et al. 2018"),
        "dueling": From(True, "Hessel et al. 2018"),
        "gradient_clip": From(10.0, "Wang et al. 2016; dqn_zoo"),
        "learning_starts": From(20_000, "Hessel et al. 2018, table 1: 80,000 frames"),
        "target_every": From(8_000, "Hessel et al. 2018, table 1: 32,000 frames"),
        "epsilon_end": From(0.01, "Hessel et al. 2018"),
        "epsilon_steps": From(62_500, "Hessel et al. 2018: 250,000 frames"),
        "evaluation_epsilon": From(0.001, "Hessel et al. 2018"),
        "replay": From("prioritised", "Hessel et al. 2018"),
        "priority_exponent": From(0.5, "Hessel et al. 2018, table 1"),
        "importance_exponent": From(0.4, "Hessel et al. 2018, table 1"),
        "importance_exponent_end": From(1.0, "Hessel et al. 2018, table 1"),
        "atoms": From(51, "Bellemare et al. 2017"),
        "value_min": From(-10.0, "Bellemare et al. 2017"),
        "value_max": From(10.0, "Bellemare et al. 2017"),
    },
    small={
        **_Q_SMALL,
        "dueling": From(True, "Hessel et al. 2018"),
        "value_min": From(-100.0, "CleanRL, c51"),
        "value_max": From(100.0, "CleanRL, c51"),
        "atoms": From(101, "CleanRL, c51"),
        "replay": From("prioritised", "Hessel et al. 2018"),
        "priority_exponent": From(0.5, "Hessel et al. 2018, table 1"),
    },
)

DDPG_SMALL: Settings = {
    "steps": From(100_000, "measured here"),
    "num_simulators": From(8, "measured here"),
    "batch": From(128, "measured here (256 in RL Zoo, ddpg Pendulum-v1)"),
    "training_intensity": From(64.0, "measured here: an update each second step (each step in RL Zoo)"),
    "learning_starts": From(2_000, "measured here"),
    "learning_rate": From(1e-3, "RL Zoo, ddpg Pendulum-v1"),
    "actor_learning_rate": From(1e-3, "RL Zoo, ddpg Pendulum-v1"),
    "discount": From(0.98, "RL Zoo, ddpg Pendulum-v1"),
    "target_every": From(0, "Lillicrap et al. 2016, section 7: every update"),
    "target_rate": From(0.005, "RL Zoo (0.001 in Lillicrap et al. 2016)"),
    "exploration_noise": From(0.1, "RL Zoo, ddpg Pendulum-v1"),
    "clip_rewards": From(False, "Lillicrap et al. 2016"),
    "replay_size": From(200_000, "RL Zoo, ddpg Pendulum-v1"),
    "hidden": From((400, 300), "Lillicrap et al. 2016, section 7"),
    "checkpoint_every": From(50_000, DEFAULT),
}

DDPG = Recipe(
    name="ddpg",
    algorithm="ddpg",
    system="synchronous",
    summary="Deep deterministic policy gradient for continuous actions (Lillicrap et al. 2016)",
    atari=DDPG_SMALL,
    small=DDPG_SMALL,
)
