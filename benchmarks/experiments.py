"""What `learning.py` trains: an experiment is a function that returns its trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Trial:
    """One training: `label` groups trials that differ by seed only, `panel` (or else `env`) those drawn together."""

    label: str
    recipe: str
    env: str
    seed: int
    flags: Sequence[str] = field(default=())
    panel: str = ""

    @property
    def name(self) -> str:
        return f"{self.label}-{self.seed}".replace("/", "-").replace(" ", "-")


def _flags(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SOLVED = {"CartPole-v1": "475", "Acrobot-v1": "-100", "Pendulum-v1": "-200"}

_ATARI = _flags("--steps 1000000 --threads 1 --evaluate-every 0")

# Value learning on MinAtar, where the paper's comparisons take minutes. The recipe's own settings, but for the network,
# the memory, and an ε that falls as slowly as in MinAtar's examples.
_MINATAR = _flags(
    "--network small --buffer-size 100000 --learning-starts 5000 --epsilon-steps 100000 "
    "--evaluate-every 0 --checkpoint-replay none --threads 1"
)

# The paper's training intensity, and step sizes as it scales them with the batch (A.3), from the one for 32.
_SCALED = _flags("--steps 500000 --training-intensity 8 --scale-learning-rate paper --learning-rate 2.5e-4")


def small() -> list[Trial]:
    """Classic control, to the score at which it counts as solved."""
    return _to_solve([(recipe, env) for recipe in ("ppo", "a2c") for env in ("CartPole-v1", "Acrobot-v1")])


def q_small() -> list[Trial]:
    """Classic control by Q-learning, and by DDPG where actions are continuous."""
    discrete = [
        (recipe, env) for recipe in ("dqn", "c51", "rainbow") for env in ("CartPole-v1", "Acrobot-v1")
    ]
    return _to_solve([*discrete, ("ddpg", "Pendulum-v1")])


def _to_solve(pairs: Sequence[tuple[str, str]]) -> list[Trial]:
    """Five seeds of each (recipe, environment)."""
    return [
        Trial(
            f"{recipe} {env}",
            recipe,
            env,
            seed,
            ("--until", _SOLVED[env], "--threads", "1", "--log-every", "0.2"),
        )
        for recipe, env in pairs
        for seed in range(1, 6)
    ]


def minatar() -> list[Trial]:
    """MinAtar by DQN: after 1 M steps Young & Tian have 9.2 in Breakout and 6.9 in Asterix.

    Each step is used 32 times, as by them (Asterix is hardly learned with 8), in batches four times as large.
    """
    return [
        Trial(
            f"dqn MinAtar {game}",
            "dqn",
            f"veldt.experiments.minatar_games:{game}",
            seed,
            (
                *_flags("--steps 1000000 --training-intensity 32 --batch-size 128 --learning-rate 1.5e-4"),
                *_MINATAR,
            ),
        )
        for seed in (1, 2)
        for game in ("breakout", "asterix")
    ]


def scale() -> list[Trial]:
    """Figure 2 of Stooke & Abbeel in small: the same steps by 8, 32 and 128 envs."""
    return [
        Trial(f"a2c Breakout {count}", "a2c", "ALE/Breakout-v5", seed, ("--num-envs", str(count), *_ATARI))
        for seed in (1, 2)
        for count in (8, 32, 128)
    ]


def q_scale() -> list[Trial]:
    """DQN with 8 and with 128 envs; `batches` has the same with 16."""
    return [
        Trial(
            f"dqn {count} envs",
            "dqn",
            "veldt.experiments.minatar_games:breakout",
            seed,
            ("--num-envs", str(count), "--batch-size", "512", *_SCALED, *_MINATAR),
        )
        for seed in (1, 2)
        for count in (8, 128)
    ]


def batches() -> list[Trial]:
    """Figure 3 of Stooke & Abbeel in small: the same steps, each used 8 times, in batches of 32, 512 and 2,048."""
    kinds = {
        "dqn": (),
        "c51": _flags("--value-min -1 --value-max 10 --adam-epsilon 0.01 --scale-adam-epsilon"),
    }
    return [
        Trial(
            f"{recipe} batch {batch}",
            recipe,
            "veldt.experiments.minatar_games:breakout",
            seed,
            ("--batch-size", str(batch), *flags, *_SCALED, *_MINATAR),
        )
        for seed in (1, 2)
        for recipe, flags in kinds.items()
        for batch in (32, 512, 2048)
    ]


def precision() -> list[Trial]:
    """bf16 against fp32 on the same seeds."""
    return [
        Trial(f"a2c Breakout {name}", "a2c", "ALE/Breakout-v5", seed, ("--precision", name, *_ATARI))
        for seed in (1, 2)
        for name in ("bf16", "fp32")
    ]


def roles_small() -> list[Trial]:
    """Actors and learner apart, to the score at which it counts as solved."""
    return _to_solve([("impala", "CartPole-v1"), ("apex-dqn", "CartPole-v1"), ("apex-ddpg", "Pendulum-v1")])


def learners() -> list[Trial]:
    """Two learners that share each batch, against one (`roles_small`)."""
    return [
        dataclasses.replace(trial, label=f"{trial.label} 2 learners", flags=(*trial.flags, "--learners", "2"))
        for trial in roles_small()
        if trial.recipe != "apex-ddpg"
    ]


# As Young & Tian's DQN where that can be, with Ape-X's own exponents and ladder.
_APEX_MINATAR = _flags(
    "--network small --batch-size 128 --learning-rate 2.5e-4 --n-step 3 --gamma 0.99 --buffer-size 100000 "
    "--learning-starts 5000 --ladder-epsilon 0.4 --priority-exponent 0.6 --evaluator-share 0.1 "
    "--checkpoint-replay none --threads 1"
)


# Traces and the loss's weights are Young & Tian's actor-critic's. The entropy is five times what the recipe has: below
# 0.05 the policy settles at a score of 5 to 6, and stays there.
_IMPALA_MINATAR = _flags(
    "--network small --shared --horizon 5 --unrolls 16 --gae-lambda 0.8 --max-grad-norm 0 --learning-rate 0.002 "
    "--vf-coef 1 --ent-coef 0.05 --optimiser rmsprop --rmsprop-decay 0.999 --rmsprop-epsilon 1e-4 "
    "--no-rmsprop-epsilon-inside --rmsprop-initial 0 --threads 1 --evaluate-every 0"
)


def roles_minatar() -> list[Trial]:
    """MinAtar's Breakout by both systems; of Young & Tian's agents DQN has 8.3 and AC(0.8) 6.9 after 500,000 steps."""
    apex = _flags(
        "--actors 2 --num-envs 32 --steps 500000 --training-intensity 16 --target-update-interval 4000"
    )
    kinds = {
        "impala": (*_flags("--actors 2 --num-envs 16 --steps 2000000"), *_IMPALA_MINATAR),
        "apex-dqn": (*apex, *_APEX_MINATAR),
    }
    return [
        Trial(f"{recipe} MinAtar breakout", recipe, "veldt.experiments.minatar_games:breakout", seed, flags)
        for seed in range(1, 6)
        for recipe, flags in kinds.items()
    ]


def actors() -> list[Trial]:
    """Ape-X with 1 to 8 actors of 8 envs each, at equal updates: more actors bring more and fresher data."""
    updates, batch, starts = 8_000, 128, 5_000
    trials = []
    for seed in (1, 2, 3):
        for count in (1, 2, 4, 8):
            steps = starts + 40_000 * count
            intensity = updates * batch / (steps - starts)
            sizes = {
                "actors": count,
                "num-envs": 8 * count,
                "steps": steps,
                "training-intensity": intensity,
                "target-every": round(500 * batch / intensity),  # the same updates
            }
            flags = [text for name, value in sizes.items() for text in (f"--{name}", f"{value:g}")]
            trials.append(
                Trial(
                    f"{count} actors",
                    "apex-dqn",
                    "veldt.experiments.minatar_games:breakout",
                    seed,
                    (*_APEX_MINATAR, *flags),
                )
            )
    return trials


def exchange_small() -> list[Trial]:
    """Several learners without all-reduce, and agents that ask one model, to the score at which it counts as solved."""
    return _to_solve([(recipe, "CartPole-v1") for recipe in ("a3c", "appo", "async-dqn", "ga3c", "gorila")])


def units() -> list[Trial]:
    """Figure 2 of Stooke & Abbeel in small: the same steps by different numbers of learners, and of local steps."""
    kinds: dict[str, list[tuple[str, str]]] = {
        "a3c": [(f"{n} learners", f"--learners {n} --num-envs {8 * n}") for n in (1, 2, 4, 8)],
        "appo": [(f"{n} local steps", f"--local-steps {n}") for n in (1, 2, 3, 4)],
        "async-dqn": [(f"{n} learners", f"--learners {n}") for n in (1, 2, 4)],
        # Each of sixteen begins when it has a batch.
        "gorila": [
            (f"{n} bundles", f"--learners {n} --num-envs 16 --learning-starts 2048") for n in (1, 4, 16)
        ],
    }
    return [
        _same_steps(f"{recipe} {label}", recipe, seed, flags, panel=recipe)
        for seed in range(1, 6)
        for recipe, variants in kinds.items()
        for label, flags in variants
    ]


def local_steps() -> list[Trial]:
    """APPO with several local steps at a quarter of its step size, and by a quarter of its learners."""
    kinds = {"8 learners": "--learning-rate 5e-4", "2 learners": "--learners 2 --num-envs 16"}
    return [
        _same_steps(
            f"{label}, {steps} local steps", "appo", seed, f"--local-steps {steps} {flags}", panel=label
        )
        for seed in range(1, 6)
        for label, flags in kinds.items()
        for steps in (1, 2, 3, 4)
    ]


def _same_steps(group: str, recipe: str, seed: int, flags: str, panel: str) -> Trial:
    """As many steps as the others of its experiment, whatever its score."""
    same = "--steps 150000 --threads 1 --log-every 0.5 --evaluate-every 0"
    return Trial(group, recipe, "CartPole-v1", seed, _flags(f"{same} {flags}"), panel=panel)


def exchange_atari() -> list[Trial]:
    """Breakout by two learners on a central store, and by agents that ask one model: hours, of one run or several."""
    kinds = {"a3c": "--learners 2 --num-envs 32", "ga3c": ""}
    return [
        Trial(
            f"{recipe} Breakout",
            recipe,
            "ALE/Breakout-v5",
            1,
            _flags(f"--steps 3000000 --evaluate-every 0 --log-every 10 {flags}"),
        )
        for recipe, flags in kinds.items()
    ]


EXPERIMENTS = {
    "exchange_small": exchange_small,
    "exchange_atari": exchange_atari,
    "units": units,
    "local_steps": local_steps,
    "roles_small": roles_small,
    "learners": learners,
    "roles_minatar": roles_minatar,
    "actors": actors,
    "small": small,
    "q_small": q_small,
    "minatar": minatar,
    "scale": scale,
    "q_scale": q_scale,
    "batches": batches,
    "precision": precision,
}
