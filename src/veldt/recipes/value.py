"""Recipes that learn from a replay buffer."""

from __future__ import annotations

from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, Recipe, Settings, Sourced

# Settings that Q-learning recipes share on Atari.
_Q_ATARI: Settings = {
    "num_envs": Sourced(16, f"{SA}, 5.2: scores hold up to 200 and more"),
    "training_intensity": Sourced(8.0, f"{SA}, 5: the reference for DQN and its variants"),
    "gamma": Sourced(0.99, "Mnih et al. 2015"),
    "buffer_size": Sourced(1_000_000, "Mnih et al. 2015"),
    "network": Sourced("dqn", f"{SA}, A.1: DQN-Net"),
    "clip_rewards": Sourced(True, "Mnih et al. 2015"),
    "terminal_on_life_loss": Sourced(True, "Mnih et al. 2015; accel_rl"),
    **EVALUATION,
    "steps": Sourced(50_000_000, f"{SA}, table 2"),
}
# Layer normalisation, a falling learning rate, a discount below 0.99 and a large buffer are needed together: without
# one of them, DQN forgets CartPole after it has solved it, because all values become nearly equal.
_Q_SMALL: Settings = {
    "steps": Sourced(200_000, "measured here"),
    "num_envs": Sourced(16, "measured here"),
    "batch_size": Sourced(128, "measured here (64 in RL Zoo, dqn CartPole-v1)"),
    "training_intensity": Sourced(32.0, "RL Zoo, dqn CartPole-v1: 128 updates of 64 for 256 steps"),
    "horizon": Sourced(8, "measured here: several updates in each phase (128 in RL Zoo)"),
    "learning_starts": Sourced(1_000, "RL Zoo, dqn CartPole-v1"),
    "learning_rate": Sourced("linear:1e-3:1e-4", "measured here (2.3e-3 in RL Zoo, dqn CartPole-v1)"),
    "gamma": Sourced(0.98, "measured here (0.99 in RL Zoo, dqn CartPole-v1)"),
    "layer_norm": Sourced(True, "measured here: Q-values stay within their bounds"),
    "n_step": Sourced(10, "measured here"),
    "double": Sourced(True, "measured here"),
    "target_update_interval": Sourced(1_000, "measured here"),
    "epsilon_end": Sourced(0.01, "measured here (0.04 in RL Zoo, dqn CartPole-v1)"),
    "evaluation_epsilon": Sourced(0.0, DEFAULT),
    "max_grad_norm": Sourced(10.0, "Wang et al. 2016"),
    "clip_rewards": Sourced(False, "RL Zoo: no reward clipping outside Atari"),
    "hidden": Sourced((128, 128), "measured here (256 256 in RL Zoo, dqn CartPole-v1)"),
    "buffer_size": Sourced(300_000, "measured here (100,000 in RL Zoo, dqn CartPole-v1)"),
    "checkpoint_every": Sourced(50_000, DEFAULT),
}
_EXPLORATION_SMALL: Settings = {
    "epsilon_steps": Sourced(0, "measured here: a fraction of the run"),
    "exploration_fraction": Sourced(0.05, "measured here (0.16 of 50,000 steps in RL Zoo, dqn CartPole-v1)"),
}
# Rainbow's learning rate is never scaled with the batch.
_NOT_SCALED: Settings = {"scale_learning_rate": Sourced("none", "measured here")}

# A reward that comes after many steps, and few states to try: without long exploration DQN never finds it.
DQN_TOY_TEXT: Settings = {
    "steps": Sourced(300_000, "measured here, Taxi"),
    "gamma": Sourced(0.99, "measured here, Taxi"),
    "n_step": Sourced(1, "measured here, Taxi: n-step returns of random actions are far below the best"),
    "exploration_fraction": Sourced(0.5, "measured here, Taxi"),
}

# With the values for other small environments, DQN often hovers until the time limit, instead of landing.
DQN_BOX2D: Settings = {
    "steps": Sourced(300_000, "measured here, LunarLander"),
    "gamma": Sourced(0.99, "RL Zoo, dqn LunarLander-v3"),
    "n_step": Sourced(3, "measured here, LunarLander"),
    "hidden": Sourced((256, 256), "RL Zoo, dqn LunarLander-v3"),
}

# Returns of LunarLander are between -400 and 300: atoms of ±100 do not hold them.
_ATOMS_BOX2D: Settings = {
    "steps": Sourced(300_000, "measured here, LunarLander"),
    "value_min": Sourced(-300.0, "measured here, LunarLander"),
    "value_max": Sourced(300.0, "measured here, LunarLander"),
    "gamma": Sourced(0.99, "RL Zoo, dqn LunarLander-v3"),
    "n_step": Sourced(5, "measured here, LunarLander"),
    "learning_rate": Sourced(
        "linear:5e-4:5e-5", "measured here, LunarLander (6.3e-4 in RL Zoo, dqn LunarLander-v3)"
    ),
    "batch_size": Sourced(64, "measured here, LunarLander (128 in RL Zoo, dqn LunarLander-v3)"),
    "training_intensity": Sourced(16.0, "measured here, LunarLander"),
}

# Q-learning on small environments with asynchronous learners, whose gradients are several updates old.
OLD_GRADIENTS: Settings = {
    "training_intensity": Sourced(8.0, "measured here"),
    "learning_rate": Sourced(5e-4, "measured here"),
    "optimiser": Sourced("rmsprop", "measured here: with Adam's momentum of old gradients Q-values diverge"),
    "n_step": Sourced(10, "measured here"),
    "dueling": Sourced(True, "measured here"),
    "layer_norm": Sourced(True, "measured here: Q-values stay within their bounds"),
    "target_update_interval": Sourced(800, "measured here: 50 updates of all"),
    "gamma": Sourced(0.98, "measured here"),
    "epsilon_steps": Sourced(0, "measured here: a fraction of the run"),
    "exploration_fraction": Sourced(0.02, "measured here (0.16 of 50,000 steps in RL Zoo, dqn CartPole-v1)"),
}

DQN = Recipe(
    name="dqn",
    algorithm="dqn",
    system="synchronous",
    summary="Deep Q-networks (Mnih et al. 2015), batches of 32 up to 2,048 (Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch_size": Sourced(32, "Mnih et al. 2015 (--batch-size 512 is the paper's DQN-512)"),
        "learning_rate": Sourced(2.5e-4, f"{SA}, A.3: for a batch of 32"),
        "scale_learning_rate": Sourced("paper", f"{SA}, A.3: 2.5, 7.5, 15e-4 for 32, 512, 1,024"),
        "optimiser": Sourced("rmsprop", f"{SA}, appendix D: without momentum, not centred; accel_rl"),
        "rmsprop_decay": Sourced(0.95, "Mnih et al. 2015; accel_rl"),
        "rmsprop_epsilon": Sourced(1e-6, "accel_rl (0.01 for a summed loss in Mnih et al. 2015)"),
        "learning_starts": Sourced(50_000, "Mnih et al. 2015"),
        "target_update_interval": Sourced(10_000, "dqn_zoo, accel_rl (10,000 updates in Mnih et al. 2015)"),
        "epsilon_end": Sourced(0.1, "Mnih et al. 2015"),
        "epsilon_steps": Sourced(1_000_000, "Mnih et al. 2015"),
        "evaluation_epsilon": Sourced(0.05, "Mnih et al. 2015"),
    },
    small={**_Q_SMALL, **_EXPLORATION_SMALL, **_NOT_SCALED},
    presets={"toy_text": DQN_TOY_TEXT, "box2d": DQN_BOX2D},
)

ASYNC_DQN = Recipe(
    name="async-dqn",
    algorithm="dqn",
    system="asynchronous",
    summary="DQN by asynchronous learners, each with its own replay buffer (Stooke & Abbeel 2018)",
    atari={
        **DQN.atari,
        "learners": Sourced(4, f"{SA}, 5.3: up to 4 learn well"),
        "num_envs": Sourced(64, f"{SA}, 5.2: 16 of each learner"),
        "batch_size": Sourced(512, f"{SA}, 5.3"),
    },
    small={
        **_Q_SMALL,
        **_NOT_SCALED,
        **OLD_GRADIENTS,
        "steps": Sourced(400_000, "measured here"),
        "learners": Sourced(4, f"{SA}, 5.3: up to 4 learn well"),
        "num_envs": Sourced(32, "measured here: 8 of each of 4 learners"),
        "learning_starts": Sourced(1_024, f"{DEFAULT}: a batch for each of up to 8 learners"),
        "epsilon_end": Sourced(0.02, "measured here (0.04 in RL Zoo, dqn CartPole-v1)"),
        "buffer_size": Sourced(
            400_000, "measured here: all steps of the run; with fewer it forgets failures"
        ),
    },
    presets={"toy_text": DQN_TOY_TEXT},
)

C51 = Recipe(
    name="c51",
    algorithm="c51",
    system="synchronous",
    summary="Categorical DQN (Bellemare et al. 2017), batches of 32 up to 2,048 (Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch_size": Sourced(32, "Bellemare et al. 2017 (--batch-size 2048 is the paper's CatDQN-2k)"),
        "learning_rate": Sourced(2.5e-4, "Bellemare et al. 2017, for a batch of 32"),
        "scale_learning_rate": Sourced("paper", f"{SA}, A.3: 4.2e-4 for 256 and above"),
        "optimiser": Sourced("adam", "Bellemare et al. 2017"),
        "adam_epsilon": Sourced(0.01, f"{SA}, A.3: 0.01 / batch"),
        "scale_adam_epsilon": Sourced(True, f"{SA}, A.3"),
        "learning_starts": Sourced(50_000, "dqn_zoo"),
        "target_update_interval": Sourced(10_000, "dqn_zoo, accel_rl"),
        "epsilon_end": Sourced(0.01, "Bellemare et al. 2017"),
        "epsilon_steps": Sourced(1_000_000, "dqn_zoo"),
        "evaluation_epsilon": Sourced(0.001, "Bellemare et al. 2017"),
        "atoms": Sourced(51, "Bellemare et al. 2017"),
        "value_min": Sourced(-10.0, "Bellemare et al. 2017"),
        "value_max": Sourced(10.0, "Bellemare et al. 2017"),
    },
    small={
        **_Q_SMALL,
        **_EXPLORATION_SMALL,
        **_NOT_SCALED,
        "value_min": Sourced(-100.0, "CleanRL, c51"),
        "value_max": Sourced(100.0, "CleanRL, c51"),
        "atoms": Sourced(101, "CleanRL, c51"),
    },
    presets={"box2d": _ATOMS_BOX2D},
)

RAINBOW = Recipe(
    name="rainbow",
    algorithm="rainbow",
    system="synchronous",
    summary="ε-Rainbow: double, dueling, prioritised, n-step, categorical (Hessel et al. 2018; Stooke & Abbeel 2018)",
    atari={
        **_Q_ATARI,
        "batch_size": Sourced(512, f"{SA}, 5.3 (32 in Hessel et al. 2018)"),
        "learning_rate": Sourced(6.25e-5, "Hessel et al. 2018, table 1"),
        "optimiser": Sourced("adam", "Hessel et al. 2018, table 1"),
        "adam_epsilon": Sourced(0.005, f"{SA}, A.3: 0.005 / batch"),
        "scale_adam_epsilon": Sourced(True, f"{SA}, A.3"),
        "n_step": Sourced(3, "Hessel et al. 2018, table 1"),
        "double": Sourced(True, "Hessel et al. 2018"),
        "dueling": Sourced(True, "Hessel et al. 2018"),
        "max_grad_norm": Sourced(10.0, "Wang et al. 2016; dqn_zoo"),
        "learning_starts": Sourced(20_000, "Hessel et al. 2018, table 1: 80,000 frames"),
        "target_update_interval": Sourced(8_000, "Hessel et al. 2018, table 1: 32,000 frames"),
        "epsilon_end": Sourced(0.01, "Hessel et al. 2018"),
        "epsilon_steps": Sourced(62_500, "Hessel et al. 2018: 250,000 frames"),
        "evaluation_epsilon": Sourced(0.001, "Hessel et al. 2018"),
        "replay": Sourced("prioritised", "Hessel et al. 2018"),
        "priority_exponent": Sourced(0.5, "Hessel et al. 2018, table 1"),
        "importance_exponent": Sourced(0.4, "Hessel et al. 2018, table 1"),
        "importance_exponent_end": Sourced(1.0, "Hessel et al. 2018, table 1"),
        "atoms": Sourced(51, "Bellemare et al. 2017"),
        "value_min": Sourced(-10.0, "Bellemare et al. 2017"),
        "value_max": Sourced(10.0, "Bellemare et al. 2017"),
    },
    small={
        **_Q_SMALL,
        **_EXPLORATION_SMALL,
        "dueling": Sourced(True, "Hessel et al. 2018"),
        "value_min": Sourced(-100.0, "CleanRL, c51"),
        "value_max": Sourced(100.0, "CleanRL, c51"),
        "atoms": Sourced(101, "CleanRL, c51"),
        "replay": Sourced("prioritised", "Hessel et al. 2018"),
        "priority_exponent": Sourced(0.5, "Hessel et al. 2018, table 1"),
    },
    presets={"box2d": _ATOMS_BOX2D},
)

DDPG_SMALL: Settings = {
    "steps": Sourced(100_000, "measured here"),
    "num_envs": Sourced(8, "measured here"),
    "batch_size": Sourced(128, "measured here (256 in RL Zoo, ddpg Pendulum-v1)"),
    "training_intensity": Sourced(64.0, "measured here: an update each second step (each step in RL Zoo)"),
    "learning_starts": Sourced(2_000, "measured here"),
    "learning_rate": Sourced(1e-3, "RL Zoo, ddpg Pendulum-v1"),
    "actor_learning_rate": Sourced(1e-3, "RL Zoo, ddpg Pendulum-v1"),
    "gamma": Sourced(0.98, "RL Zoo, ddpg Pendulum-v1"),
    "target_update_interval": Sourced(0, "Lillicrap et al. 2016, section 7: every update"),
    "tau": Sourced(0.005, "RL Zoo (0.001 in Lillicrap et al. 2016)"),
    "exploration_noise": Sourced(0.1, "RL Zoo, ddpg Pendulum-v1"),
    "clip_rewards": Sourced(False, "Lillicrap et al. 2016"),
    "buffer_size": Sourced(200_000, "RL Zoo, ddpg Pendulum-v1"),
    "hidden": Sourced((400, 300), "Lillicrap et al. 2016, section 7"),
    "checkpoint_every": Sourced(50_000, DEFAULT),
}

DDPG = Recipe(
    name="ddpg",
    algorithm="ddpg",
    system="synchronous",
    summary="Deep deterministic policy gradient for continuous actions (Lillicrap et al. 2016)",
    atari=DDPG_SMALL,
    small=DDPG_SMALL,
)
