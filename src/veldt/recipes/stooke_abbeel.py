"""The configurations of Stooke & Abbeel 2018: tables 1 and 2, figures 2 to 4, appendix A."""

from __future__ import annotations

from veldt.recipes.paper_recipe import paper_recipe
from veldt.recipes.policy_gradient import A2C, A3C, APPO, PPO
from veldt.recipes.recipe import SA, Recipe, Settings, Sourced
from veldt.recipes.value import ASYNC_DQN, C51, DQN, RAINBOW

_NOT_SCALED = Sourced("none", f"{SA}, A.3")
_ATARI: Settings = {"preprocessing": Sourced("104x80", f"{SA}, A.1")}

_POLICY_GRADIENT: Settings = {
    **_ATARI,
    "steps": Sourced(25_000_000, f"{SA}, table 1"),
    "evaluate_every": Sourced(0, f"{SA}, 5: the scores are those of training"),
}

_ACTOR_CRITIC: Settings = {
    **_POLICY_GRADIENT,
    "horizon": Sourced(5, f"{SA}, 5.2: batches of 80 with 16 simulators, 2,560 with 512"),
    "learning_rate": Sourced(7e-4, f"{SA}, A.3: for 16 envs"),
    "scale_learning_rate": Sourced("sqrt", f"{SA}, 5.2"),
}

# "We did not change any optimization settings" (A.3): they are those of PPO's own paper.
_SCHULMAN = "Schulman et al. 2017, table 5"
_ORIGINAL_PPO: Settings = {
    **_POLICY_GRADIENT,
    "batch_size": Sourced(2048, f"{SA}, 5.2: 8 x 256; more envs make the horizon shorter"),
    "epochs": Sourced(4, f"{SA}, 5.2 (3 in {_SCHULMAN})"),
    "minibatches": Sourced(4, f"{SA}, 5.2"),
    "learning_rate": Sourced(2.5e-4, _SCHULMAN),
    "anneal_learning_rate": Sourced(True, _SCHULMAN),
    "clip": Sourced(0.1, _SCHULMAN),
    "anneal_clip": Sourced(True, _SCHULMAN),
    "gae_lambda": Sourced(0.95, _SCHULMAN),
    "ent_coef": Sourced(0.01, _SCHULMAN),
    "vf_coef": Sourced(1.0, _SCHULMAN),
    "max_grad_norm": Sourced(0.0, f"{SA}, A.3: only the asynchronous one clips"),
    "clip_values": Sourced(False, "Schulman et al. 2017, equation 9"),
}

_Q_LEARNING: Settings = {
    **_ATARI,
    "steps": Sourced(50_000_000, f"{SA}, table 1"),
    "training_intensity": Sourced(8.0, f"{SA}, 5"),
    "buffer_size": Sourced(1_000_000, f"{SA}, 5.2"),
    "evaluate_every": Sourced(1_000_000, f"{SA}, 5"),
    "evaluate_steps": Sourced(125_000, f"{SA}, 5"),
}
_DQN_512: Settings = {
    **_Q_LEARNING,
    "batch_size": Sourced(512, f"{SA}, table 1"),
    "learning_rate": Sourced(7.5e-4, f"{SA}, A.3: for a batch of 512"),
    "scale_learning_rate": _NOT_SCALED,
}


def _a2c(envs: int, learning_rate: str, where: str, settings: Settings | None = None) -> Recipe:
    return paper_recipe(
        A2C,
        f"a2c-{envs}",
        f"A2C with {envs} envs, and a learning rate of {learning_rate} ({where})",
        {**_ACTOR_CRITIC, "num_envs": Sourced(envs, where), **(settings or {})},
    )


def _a3c(name: str, learners: int, where: str) -> Recipe:
    return paper_recipe(
        A3C,
        name,
        f"A3C with {learners} learners of 16 envs each ({where})",
        {
            **_ACTOR_CRITIC,
            "learners": Sourced(learners, where),
            "num_envs": Sourced(16 * learners, f"{SA}, 5.2: 16 of each learner"),
        },
    )


def _ppo(envs: int, where: str) -> Recipe:
    horizon = 2048 // envs
    return paper_recipe(
        PPO,
        f"ppo-{envs}x{horizon}",
        f"PPO with {envs} envs and a horizon of {horizon} ({where})",
        {**_ORIGINAL_PPO, "num_envs": Sourced(envs, where)},
    )


STOOKE_ABBEEL = (
    _a2c(16, "7e-4", f"{SA}, table 1"),
    _a2c(128, "2e-3", f"{SA}, table 1"),
    _a2c(256, "2.8e-3", f"{SA}, 5.4 and figure 4"),
    _a2c(
        512,
        "3e-3",
        f"{SA}, figure 2 and A.3",
        {
            "learning_rate": Sourced(3e-3, f"{SA}, A.3: for 512 envs (4e-3 by the square root of 5.2)"),
            "scale_learning_rate": _NOT_SCALED,
        },
    ),
    _a3c("a3c-3x16", 3, f"{SA}, table 1"),
    _a3c("a3c-16", 8, f"{SA}, table 2"),
    _ppo(8, f"{SA}, table 1"),
    _ppo(128, f"{SA}, table 1"),
    _ppo(512, f"{SA}, figure 2"),
    paper_recipe(
        APPO,
        "appo-8",
        f"Asynchronous PPO with 8 learners of 8 envs and a horizon of 256 ({SA}, table 1)",
        {
            **_ORIGINAL_PPO,
            "learners": Sourced(8, f"{SA}, table 1"),
            "num_envs": Sourced(64, f"{SA}, table 1: 8 of each learner"),
            "batch_size": Sourced(2048, f"{SA}, A.3: 8 envs x 256 steps of each learner"),
            "learning_rate": Sourced(6.25e-5, f"{SA}, A.3: a quarter of PPO's"),
            "anneal_learning_rate": Sourced(False, f"{SA}, A.3"),
            "anneal_clip": Sourced(False, "accel_rl: it falls by the learning rate's schedule"),
            "max_grad_norm": Sourced(0.5, f"{SA}, A.3 has one; OpenAI baselines ppo2"),
            "local_steps": Sourced(1, f"{SA}, 5.2: 1 to 4"),
            "actor_sync_interval": Sourced(64, f"{SA}, 5.2"),
        },
    ),
    paper_recipe(
        DQN, "dqn-512", f"DQN with batches of 512, and a learning rate of 7.5e-4 ({SA}, table 1)", _DQN_512
    ),
    paper_recipe(
        ASYNC_DQN,
        "async-dqn-512",
        f"DQN by 4 asynchronous learners, each with batches of 512 ({SA}, table 2)",
        {**_DQN_512, "learners": Sourced(4, f"{SA}, 5.3 and table 2")},
    ),
    paper_recipe(
        C51,
        "c51-2048",
        f"Categorical DQN with batches of 2,048, and a learning rate of 4.2e-4 ({SA}, table 1)",
        {
            **_Q_LEARNING,
            "batch_size": Sourced(2048, f"{SA}, table 1"),
            "learning_rate": Sourced(4.2e-4, f"{SA}, A.3: for 256 and above"),
            "scale_learning_rate": _NOT_SCALED,
            "adam_epsilon": Sourced(0.01, f"{SA}, A.3: 0.01 / batch"),
            "scale_adam_epsilon": Sourced(True, f"{SA}, A.3"),
        },
    ),
    paper_recipe(
        RAINBOW,
        "rainbow-512",
        f"ε-Rainbow with batches of 512 ({SA}, table 1)",
        {
            **_Q_LEARNING,
            "batch_size": Sourced(512, f"{SA}, table 1"),
            "learning_rate": Sourced(6.25e-5, f"{SA}, A.3: as published (Hessel et al. 2018, table 1)"),
            "adam_epsilon": Sourced(0.005, f"{SA}, A.3: 0.005 / batch"),
            "scale_adam_epsilon": Sourced(True, f"{SA}, A.3"),
        },
    ),
)
