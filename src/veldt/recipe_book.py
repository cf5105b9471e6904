"""The named recipes: algorithm x system x a paper's settings, each number with its source.

A recipe has a variant for Atari and one for small environments (vectors), because nobody publishes one setting for
both; the environment decides which is meant.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config import ALGORITHMS, SYSTEMS, NetworkConfig, RunConfig, System, TrainConfig, check_fits
from veldt.errors import UsageError, did_you_mean
from veldt.replay.settings import ReplayConfig
from veldt.runtime.settings import Unit
from veldt.simulators.settings import AtariConfig, SimulationConfig

SA = "Stooke & Abbeel 2018"
_DEFAULT = "veldt's default"
# Sections of the configuration in which a setting is looked up by name.
_SECTIONS: Mapping[str, type[Any]] = {
    "run": RunConfig,
    "replay": ReplayConfig,
    "simulation": SimulationConfig,
    "network": NetworkConfig,
    "atari": AtariConfig,
}


@dataclass(frozen=True)
class From:
    """A value and where it comes from."""

    value: Any
    source: str


Settings = Mapping[str, From]


@dataclass(frozen=True)
class Recipe:
    """`atari` and `small` are settings by name, over the defaults of the configuration."""

    name: str
    algorithm: str
    system: System
    summary: str
    atari: Settings
    small: Settings

    def settings(self, env: str, algorithm: str | None = None) -> Settings:
        """What this recipe sets for `env`, by name, in the unit of each setting; for Atari if its name begins ALE/.

        Everything else is at veldt's default. The name is not looked up, so an unknown one is no error. With another
        algorithm than its own, what only that one has is as that one's own recipe says.
        """
        settings = self.atari if env.startswith("ALE/") else self.small
        if algorithm in (None, self.algorithm):
            return settings
        learn, own = _names(ALGORITHMS[algorithm][0]), _names(ALGORITHMS[self.algorithm][0])
        other = find(algorithm).settings(env)
        kept = {name: value for name, value in settings.items() if name not in own - learn}
        return kept | {name: other[name] for name in learn - own if name in other}

    def config(self, env: str, algorithm: str | None = None) -> TrainConfig:
        """The configuration with this recipe's values for `env`, and veldt's defaults for the rest.

        Args:
            algorithm: another than its own. UsageError where it does not fit the system.
        """
        algorithm = algorithm or self.algorithm
        if algorithm not in ALGORITHMS:
            raise UsageError(
                f"--algorithm is '{algorithm}'{did_you_mean(algorithm, ALGORITHMS)}: known are "
                f"{', '.join(ALGORITHMS)}"
            )
        check_fits(self.system, algorithm)
        settings = self.settings(env, algorithm)
        sections = self._sections(algorithm)
        values: dict[str, dict[str, Any]] = {section: {} for section in sections}
        for name, setting in settings.items():
            values[_section_of(name, sections)][name] = setting.value
        built: dict[str, Any] = {section: cls(**values[section]) for section, cls in sections.items()}
        return TrainConfig(recipe=self.name, algorithm=algorithm, system=self.system, env=env, **built)

    def _sections(self, algorithm: str) -> dict[str, type[Any]]:
        learn, roles = ALGORITHMS[algorithm][0], SYSTEMS[self.system]
        sections = {"learn": learn, **_SECTIONS} | ({} if roles is None else {"roles": roles})
        if not issubclass(learn, OffPolicyConfig):
            del sections["replay"]
        return sections

    def has(self, name: str) -> bool:
        """Whether it has a setting of that name."""
        return any(name in _names(cls) for cls in self._sections(self.algorithm).values())

    def table(self, config: TrainConfig, given: Collection[str] = ()) -> list[tuple[str, str, str, str]]:
        """(setting, value, unit, source) of every value of this recipe's `config`, for `veldt recipes NAME`.

        `given` are the names of settings that the user has changed in it.
        """
        settings, rows = self.settings(config.env, config.algorithm), []
        for section in self._sections(config.algorithm):
            part = getattr(config, section)
            hints = typing.get_type_hints(type(part), include_extras=True)
            for field in dataclasses.fields(part):
                source = settings[field.name].source if field.name in settings else _DEFAULT
                if field.name in given:
                    source = "given"
                value = getattr(part, field.name)
                rows.append((field.name, _show(value), _unit(hints[field.name]), source))
        return rows


def derived_of(config: TrainConfig) -> list[tuple[str, str, str, str]]:
    """(what, value, unit, from what) of what follows from the settings: how they shape an optimisation phase."""
    if not isinstance(config.learn, OffPolicyConfig):
        return []
    in_phases = config.roles is None
    return config.learn.derived(config.simulation.num_simulators, in_phases)


def _names(cls: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def _section_of(name: str, sections: Mapping[str, type[Any]]) -> str:
    owners = [
        section for section, cls in sections.items() if name in {f.name for f in dataclasses.fields(cls)}
    ]
    assert len(owners) == 1, f"the setting {name} belongs to {owners or 'no section'}"
    return owners[0]


def _unit(hint: Any) -> str:
    return next((extra.name for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Unit)), "")


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# Of every recipe on Atari.
_EVALUATION: Settings = {
    "evaluate_every": From(1_000_000, f"{SA}, 5"),
    "evaluate_steps": From(125_000, f"{SA}, 5"),
}

_A2C = Recipe(
    name="a2c",
    algorithm="a2c",
    system="synchronous",
    summary="Advantage actor-critic, one update per rollout of 5 steps (Mnih et al. 2016; Stooke & Abbeel 2018)",
    atari={
        "num_simulators": From(16, f"{SA}, A.3: base of the scaling"),
        "horizon": From(5, "Mnih et al. 2016: t_max 5"),
        "learning_rate": From(7e-4, f"{SA}, A.3: for 16 simulators"),
        "scale_learning_rate": From("sqrt", f"{SA}, 5.2"),
        "anneal_learning_rate": From(False, "accel_rl"),
        "rmsprop_decay": From(0.99, "Mnih et al. 2016, by the authors' e-mail"),
        "rmsprop_epsilon": From(1e-5, "OpenAI baselines a2c; pytorch-a2c-ppo-acktr"),
        # Squared gradients are near 1e-8 at this batch: inside the root, ε would be all that is left of it.
        "rmsprop_epsilon_inside": From(False, "pytorch-a2c-ppo-acktr (inside in OpenAI baselines)"),
        "rmsprop_initial": From(0.0, "pytorch-a2c-ppo-acktr (1 in OpenAI baselines, by TensorFlow)"),
        "discount": From(0.99, "Mnih et al. 2016"),
        "entropy": From(0.01, "Mnih et al. 2016"),
        "value_weight": From(0.25, "accel_rl; Mnih et al. 2016 (½ gradient of ½ error)"),
        "gradient_clip": From(0.5, "OpenAI baselines a2c; accel_rl"),
        "life_loss_ends": From(True, "accel_rl"),
        "decorrelate": From(100, f"{SA}, 5.2: random number of random steps at the start"),
        **_EVALUATION,
    },
    small={
        "steps": From(500_000, "RL Zoo, a2c CartPole-v1"),
        "num_simulators": From(8, "RL Zoo, a2c CartPole-v1"),
        "horizon": From(16, "measured here"),
        "learning_rate": From(2e-3, "measured here"),
        "scale_learning_rate": From("none", "measured here"),
        "rmsprop_epsilon_inside": From(True, "RL Zoo (RMSpropTFLike)"),
        "rmsprop_initial": From(0.0, "measured here (1 in RL Zoo's RMSpropTFLike)"),
        "entropy": From(0.0, "RL Zoo, a2c CartPole-v1"),
        "gae_lambda": From(0.95, "measured here"),
        "discount": From(0.99, "RL Zoo"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": From(False, "RL Zoo: separate policy and value networks"),
        "checkpoint_every": From(100_000, _DEFAULT),
    },
)

_PPO = Recipe(
    name="ppo",
    algorithm="ppo",
    system="synchronous",
    summary="Proximal policy optimisation with clipping (Schulman et al. 2017; Stooke & Abbeel 2018)",
    atari={
        "num_simulators": From(16, "measured here: two processes of eight"),
        "batch": From(1024, "Schulman et al. 2017, table 5: 8 x 128; the horizon shrinks as simulators grow"),
        "epochs": From(3, "Schulman et al. 2017, table 5"),
        "minibatches": From(4, f"{SA}, 5.2"),
        "clip": From(0.1, "Schulman et al. 2017, table 5"),
        "anneal_clip": From(True, "Schulman et al. 2017, table 5"),
        "learning_rate": From(
            5e-4, "measured here, for A3C-Net; between the paper's 2.5e-4 and rlpyt's 1e-3"
        ),
        "anneal_learning_rate": From(True, "Schulman et al. 2017, table 5"),
        "gae_lambda": From(0.95, "Schulman et al. 2017, table 5"),
        "discount": From(0.99, "Schulman et al. 2017, table 5"),
        "entropy": From(0.01, "Schulman et al. 2017, table 5"),
        "value_weight": From(0.25, "OpenAI baselines ppo2 (½ · ½; the paper has 1)"),
        "gradient_clip": From(0.5, "OpenAI baselines ppo2"),
        "normalise_advantages": From(True, "OpenAI baselines ppo2"),
        "clip_values": From(True, "OpenAI baselines ppo2"),
        "adam_epsilon": From(1e-5, "OpenAI baselines ppo2"),
        "life_loss_ends": From(True, "accel_rl"),
        "decorrelate": From(100, f"{SA}, 5.2: random number of random steps at the start"),
        **_EVALUATION,
    },
    small={
        "steps": From(500_000, "measured here"),
        "num_simulators": From(32, "measured here: inference of 32 costs as much as of 8"),
        "batch": From(2048, "measured here"),
        "epochs": From(6, "measured here"),
        "minibatches": From(8, "RL Zoo: 256 steps a minibatch"),
        "clip": From(0.2, "RL Zoo, ppo CartPole-v1"),
        "learning_rate": From(2e-3, "measured here"),
        "anneal_learning_rate": From(False, "measured here"),
        "gae_lambda": From(0.95, "measured here"),
        "discount": From(0.99, "measured here"),
        "entropy": From(0.0, "RL Zoo, ppo CartPole-v1"),
        "value_weight": From(0.5, "RL Zoo"),
        "gradient_clip": From(0.5, "RL Zoo"),
        "clip_values": From(False, "RL Zoo"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "shared": From(False, "RL Zoo: separate policy and value networks"),
        "checkpoint_every": From(100_000, _DEFAULT),
    },
)

# What Q-learning recipes have in common on Atari.
_Q_ATARI: Settings = {
    "num_simulators": From(16, f"{SA}, 5.2: scores hold up to 200 and more"),
    "training_intensity": From(8.0, f"{SA}, 5: the reference for DQN and its variants"),
    "discount": From(0.99, "Mnih et al. 2015"),
    "replay_size": From(1_000_000, "Mnih et al. 2015"),
    "network": From("dqn", f"{SA}, A.1: DQN-Net"),
    "clip_rewards": From(True, "Mnih et al. 2015"),
    "life_loss_ends": From(True, "Mnih et al. 2015; accel_rl"),
    **_EVALUATION,
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
    "evaluation_epsilon": From(0.0, _DEFAULT),
    "gradient_clip": From(10.0, "Wang et al. 2016"),
    "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
    "hidden": From((128, 128), "measured here (256 256 in RL Zoo, dqn CartPole-v1)"),
    "replay_size": From(100_000, "RL Zoo, dqn CartPole-v1"),
    "checkpoint_every": From(50_000, _DEFAULT),
}

_DQN = Recipe(
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

_C51 = Recipe(
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

_RAINBOW = Recipe(
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

_DDPG_SMALL: Settings = {
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
    "checkpoint_every": From(50_000, _DEFAULT),
}

_DDPG = Recipe(
    name="ddpg",
    algorithm="ddpg",
    system="synchronous",
    summary="Deep deterministic policy gradient for continuous actions (Lillicrap et al. 2016)",
    atari=_DDPG_SMALL,
    small=_DDPG_SMALL,
)

_HORGAN = "Horgan et al. 2018"

# Of actors, replay and learner alike, whatever the algorithm.
_APEX: Settings = {
    "flush": From(50, f"{_HORGAN}, appendix C"),
    "pull_every": From(100, f"{_HORGAN}, section 4.1: 400 frames"),
    "batches_ahead": From(16, f"{_HORGAN}, section 4.1"),
    "replay": From("prioritised", _HORGAN),
    "priority_exponent": From(0.6, f"{_HORGAN}, section 4.1"),
    "importance_exponent": From(0.4, f"{_HORGAN}, section 4.1"),
    "importance_exponent_end": From(0.4, f"{_HORGAN}, section 4.1: constant"),
}

_APEX_DQN = Recipe(
    name="apex-dqn",
    algorithm="dqn",
    system="apex",
    summary="Ape-X DQN: actors on a ladder of ε, distributed prioritised replay, one learner (Horgan et al. 2018)",
    atari={
        **_APEX,
        **_EVALUATION,
        "steps": From(50_000_000, f"{SA}, table 2 (5.7e9 in {_HORGAN})"),
        "num_simulators": From(32, f"{_DEFAULT} (360 in {_HORGAN})"),
        "exploration": From("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": From(0.4, f"{_HORGAN}, section 4.1"),
        "batch": From(512, f"{_HORGAN}, section 4.1"),
        "training_intensity": From(8.0, f"{SA}, 5 (about 0.8 in {_HORGAN}, with 360 actors)"),
        "learning_rate": From(6.25e-5, f"{_HORGAN}, appendix C: 0.00025 / 4"),
        "scale_learning_rate": From("none", _HORGAN),
        "optimiser": From("adam", f"uber-research/ape-x (centred RMSProp in {_HORGAN})"),
        "adam_epsilon": From(1.5e-4, "RLlib, APEX; Hessel et al. 2018, table 1"),
        "n_step": From(3, f"{_HORGAN}, appendix C"),
        "double": From(True, _HORGAN),
        "dueling": From(True, _HORGAN),
        "gradient_clip": From(40.0, f"{_HORGAN}, appendix C"),
        "discount": From(0.99, f"{_HORGAN}, appendix C"),
        "learning_starts": From(50_000, f"{_HORGAN}, section 4.1"),
        "target_every": From(160_000, f"{_HORGAN}: 2,500 batches of 512, at this intensity"),
        "replay_size": From(1_000_000, f"Mnih et al. 2015 (2,000,000, soft, in {_HORGAN})"),
        "evaluation_epsilon": From(0.001, "Hessel et al. 2018"),
        "network": From("dqn", _HORGAN),
        "clip_rewards": From(True, "Mnih et al. 2015"),
        "life_loss_ends": From(True, "Mnih et al. 2015"),
    },
    small={
        **_APEX,
        "steps": From(1_000_000, "measured here"),
        "actors": From(8, "measured here"),
        "num_simulators": From(64, "measured here"),
        "exploration": From("ladder", f"{_HORGAN}, section 4.1"),
        "ladder_epsilon": From(0.1, f"measured here (0.4 in {_HORGAN})"),
        "batch": From(128, "measured here"),
        "training_intensity": From(8.0, "measured here"),
        "learning_starts": From(1_000, "RL Zoo, dqn CartPole-v1"),
        "learning_rate": From(2e-3, "measured here (2.3e-3 in RL Zoo, dqn CartPole-v1)"),
        "scale_learning_rate": From("none", "measured here"),
        "n_step": From(10, "measured here"),
        "double": From(True, _HORGAN),
        "dueling": From(True, _HORGAN),
        "target_every": From(400, "measured here"),
        "evaluation_epsilon": From(0.0, _DEFAULT),
        "evaluator_share": From(0.4, "measured here"),
        "publish_every": From(4, "measured here"),
        "gradient_clip": From(10.0, "Wang et al. 2016"),
        "clip_rewards": From(False, "RL Zoo: no reward clipping outside Atari"),
        "hidden": From((128, 128), "measured here"),
        "layer_norm": From(True, "measured here"),
        "priority_exponent": From(0.3, f"measured here (0.6 in {_HORGAN})"),
        "discount": From(0.98, "measured here"),
        "replay_size": From(50_000, "measured here (100,000 in RL Zoo, dqn CartPole-v1)"),
        "checkpoint_every": From(25_000, "measured here: half a minute"),
    },
)

_APEX_DDPG_SMALL: Settings = {
    **_DDPG_SMALL,
    **_APEX,
    "steps": From(400_000, "measured here"),
    "actors": From(4, "measured here"),
    "num_simulators": From(16, "measured here"),
    "batch": From(256, f"{_HORGAN}, section 4.2"),
    "training_intensity": From(64.0, "measured here"),
    "n_step": From(5, f"{_HORGAN}, appendix D"),
    "action_gradient_clip": From(1.0, f"{_HORGAN}, appendix D"),
    "exploration_noise": From(0.3, f"{_HORGAN}, appendix D"),
    "evaluator_share": From(0.1, "measured here"),
    "publish_every": From(4, "measured here"),
}

_APEX_DDPG = Recipe(
    name="apex-ddpg",
    algorithm="ddpg",
    system="apex",
    summary="Ape-X DPG: the same for continuous actions (Horgan et al. 2018, section 4.2)",
    atari=_APEX_DDPG_SMALL,
    small=_APEX_DDPG_SMALL,
)

_ESPEHOLT = "Espeholt et al. 2018"

_IMPALA = Recipe(
    name="impala",
    algorithm="vtrace",
    system="impala",
    summary="IMPALA: actors send unrolls, the learner corrects for their age by V-trace (Espeholt et al. 2018)",
    atari={
        **_EVALUATION,
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
        "checkpoint_every": From(250_000, _DEFAULT),
    },
)

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (_A2C, _PPO, _DQN, _C51, _RAINBOW, _DDPG, _APEX_DQN, _APEX_DDPG, _IMPALA)
}


def find(name: str) -> Recipe:
    """The recipe of that name; UsageError, with a suggestion, for an unknown one."""
    if name not in RECIPES:
        raise UsageError(f"no recipe '{name}'{did_you_mean(name, RECIPES)}: known are {', '.join(RECIPES)}")
    return RECIPES[name]
