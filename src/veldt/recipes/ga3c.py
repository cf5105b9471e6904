"""GA3C."""

from __future__ import annotations

from veldt.recipes.policy_gradient import A2C
from veldt.recipes.recipe import DEFAULT, EVALUATION, SA, Recipe, Sourced

_NVLABS = "NVlabs/GA3C, Config.py"
_BABAEIZADEH = "Babaeizadeh et al. 2017"

GA3C = Recipe(
    name="ga3c",
    algorithm="a2c",
    system="ga3c",
    summary="GA3C: agents request actions from one model, whose threads answer and learn (Babaeizadeh et al. 2017)",
    atari={
        **EVALUATION,
        "num_envs": Sourced(32, f"{_NVLABS}: N_A"),
        "predictors": Sourced(2, f"{_BABAEIZADEH}, section 2; {_NVLABS}"),
        "trainers": Sourced(2, f"{_BABAEIZADEH}, section 2; {_NVLABS}"),
        "prediction_batch": Sourced(128, _NVLABS),
        # RMSProp with a small ε makes a step of the same length from one noisy rollout as from many.
        "training_rows": Sourced(80, f"a2c's batch (0 in {_NVLABS}: a trainer learns from a single rollout)"),
        "tuner_interval": Sourced(60.0, f"{_BABAEIZADEH}, section 2: every minute"),
        "horizon": Sourced(5, f"{_NVLABS}: T_max"),
        "learning_rate": Sourced(
            7e-4, "Stooke & Abbeel 2018, A.3, of 80 rows (3e-4, of a sum, in NVlabs/GA3C)"
        ),
        # Grouped updates keep the learning rate of 80 rows, and those of --no-group-rollouts get a smaller one.
        "scale_learning_rate": Sourced("sqrt", f"{SA}, 5.2 (none in {_NVLABS})"),
        "anneal_learning_rate": Sourced(False, f"{_NVLABS}: it begins and ends at the same rate"),
        "rmsprop_decay": Sourced(0.99, _NVLABS),
        # NVlabs' ε is for a sum over 5 steps. For a mean it would be 0.1 / 5², which would still dominate the root:
        # steps would be proportional to gradients, and a mean does not grow with the number of rollouts, as a sum does.
        "rmsprop_epsilon": Sourced(1e-5, "pytorch-a2c-ppo-acktr (0.1, of a sum, in NVlabs/GA3C)"),
        "rmsprop_epsilon_inside": Sourced(
            False, "pytorch-a2c-ppo-acktr (inside in NVlabs/GA3C, by TensorFlow)"
        ),
        # 1 for a sum over 5 steps would be 1 / 5² for a mean, and dominate the root for hundreds of updates.
        "rmsprop_initial": Sourced(0.0, "pytorch-a2c-ppo-acktr (1, of a sum, in NVlabs/GA3C, by TensorFlow)"),
        "gamma": Sourced(0.99, _NVLABS),
        "ent_coef": Sourced(0.01, _NVLABS),
        "vf_coef": Sourced(0.5, "NVlabs/GA3C, NetworkVP.py: half the squared error"),
        "max_grad_norm": Sourced(0.5, f"OpenAI baselines a2c (off in {_NVLABS}, or 40 for a sum)"),
        "clip_rewards": Sourced(True, _NVLABS),
        "network": Sourced("a3c", f"{_BABAEIZADEH}: A3C's"),
        "terminal_on_life_loss": Sourced(True, "accel_rl"),
    },
    small={
        **A2C.small,
        "num_envs": Sourced(8, "RL Zoo, a2c CartPole-v1"),
        "agent_processes": Sourced(1, "measured here: agents that step together are answered together"),
        "predictors": Sourced(1, "measured here"),
        "trainers": Sourced(1, "measured here"),
        "prediction_wait": Sourced(2.0, "measured here: one inference for all agents"),
        "training_rows": Sourced(128, "measured here"),
        "horizon": Sourced(16, "measured here"),
        "learning_rate": Sourced(2.4e-3, "measured here: 3e-3 for 128 rows, 1.1e-3 for a single rollout"),
        "scale_learning_rate": Sourced("sqrt", f"{SA}, 5.2"),
        # From 0 the first updates are ten times as long, and can make a policy deterministic before it has seen much.
        "rmsprop_initial": Sourced(6e-5, "1 / 128²: 1 in NVlabs/GA3C, by TensorFlow, for a sum over rows"),
        "checkpoint_every": Sourced(250_000, DEFAULT),
    },
)
