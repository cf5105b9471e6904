"""The sizes of a run in its env: whether they fit together, and how much memory it needs."""

from __future__ import annotations

from veldt.algorithms.base import OffPolicy
from veldt.config.system_settings import ApexConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.replay.size import replay_bytes, transitions_each

PROCESS_BYTES = 2**29  # of a run without its replay buffer: Python, torch, the envs and the network


def check_sizes(config: TrainConfig, spec: EnvSpec) -> None:
    """Raises UsageError where the sizes of rollouts, batches and the replay buffer do not fit together in this env."""
    algorithm = config.make_algorithm(spec.action)
    algorithm.horizon(config.phase_width)
    if config.in_phases and config.batch_shares > 1:
        _check_shares(algorithm.update_rows(config.phase_width), config.batch_shares)
    if isinstance(algorithm, OffPolicy) and config.replay is not None:
        transitions_each(spec, _rings(config), config.replay, algorithm.returns)


def _check_shares(rows: int, learners: int) -> None:
    if rows < learners:
        raise UsageError(
            f"an update learns from {rows:,} steps, and --learners is {learners}: each learner must get one at least; "
            "take a larger batch, fewer --minibatches if this recipe has them, or fewer --learners"
        )


def buffer_bytes(config: TrainConfig, spec: EnvSpec) -> int:
    """Returns about how much memory a run's replay buffer needs when it is full; 0 if it has none."""
    algorithm = config.make_algorithm(spec.action)
    if not isinstance(algorithm, OffPolicy) or config.replay is None:
        return 0
    return replay_bytes(spec, _rings(config), config.replay, algorithm.returns)


def _rings(config: TrainConfig) -> int:
    """Returns how many sequences of steps the replay buffer stores side by side."""
    copies = config.roles.insertions if isinstance(config.roles, ApexConfig) else 1
    return config.envs.num_envs * copies
