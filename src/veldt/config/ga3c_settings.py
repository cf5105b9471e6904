"""Settings of GA3C: the number of agent processes and threads, and the tuner of these numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from veldt.config.system_settings import RolesConfig, check_even, even_share
from veldt.errors import UsageError
from veldt.formatting import counted
from veldt.setting_metadata import Unit
from veldt.setting_text import flag

_OF_TUNER = ("tuner_most", "tune_agents")
_LONGEST_MS = 1000.0  # a predictor sends no heartbeat while it waits


@dataclass(frozen=True, kw_only=True)
class Ga3cConfig(RolesConfig):
    """The processes and threads of GA3C. Its agents, N_A, are the envs: --num-envs."""

    learners: Annotated[int, Unit("processes")] = 1
    """Must be 1: there is one model, whose --trainers learn."""
    agent_processes: Annotated[int, Unit("processes")] = 0
    """Processes of agents, each with the same number of agents; 0: one for each core that may be used, or fewer if the
    agents cannot be divided evenly among so many."""
    predictors: Annotated[int, Unit("threads")] = 2
    """N_P: threads that answer agents' requests; each answers all waiting requests in one inference."""
    trainers: Annotated[int, Unit("threads")] = 2
    """N_T: threads that learn from agents' rollouts; each takes all waiting rollouts for one update, or with
    --no-group-rollouts one of them."""
    group_rollouts: bool = True
    """Whether all rollouts that wait become one update; off: each rollout is an update of its own, as in the paper
    (section 2). Off, updates are smaller, noisier and more, and need a smaller learning rate: A2C's follows the size of
    the batch (--scale-learning-rate sqrt); of another algorithm, give one."""
    prediction_batch: Annotated[int, Unit("requests")] = 128
    """Largest number of requests in one inference."""
    prediction_wait: Annotated[float, Unit("ms")] = 0.0
    """How long a predictor waits for more requests, while there are fewer than --prediction-batch and not one of each
    agent."""
    training_rows: Annotated[int, Unit("steps")] = 0
    """Steps that must be waiting before a trainer learns from all of them; 0: a single rollout is enough. Read only
    while rollouts are grouped."""
    training_queue: Annotated[int, Unit("rollouts")] = 0
    """Rollouts in the training queue at which agents wait; 0: the number of agents. Each agent process may have at
    least as many rollouts in it as a trainer waits for, because the agents of other processes may be parked."""
    tuner_interval: Annotated[float, Unit("seconds")] = 60.0
    """How long the tuner measures a number of predictors and trainers before it tries another; 0: no tuner. It
    maximises rollouts per second, or with --no-group-rollouts updates per second."""
    tuner_most: Annotated[int, Unit("threads")] = 8
    """Largest number of predictors, and of trainers, that the tuner tries (or the number that was given, if larger)."""
    tune_agents: bool = False
    """Whether the tuner also changes the number of agents that act, up to --num-envs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learners != 1:
            raise UsageError(
                f"--learners is {self.learners}, and the system ga3c has one model on one device: it must be 1; take "
                "more --trainers"
            )
        for name in ("predictors", "trainers", "prediction_batch", "tuner_most"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        for name in ("agent_processes", "training_rows", "training_queue"):
            if getattr(self, name) < 0:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be 0 (automatic) or more")
        if not 0 <= self.prediction_wait <= _LONGEST_MS:
            raise UsageError(
                f"--prediction-wait is {self.prediction_wait:g}: it must be in [0, {_LONGEST_MS:g}] ms (0: none)"
            )
        if self.tuner_interval < 0:
            raise UsageError(
                f"--tuner-interval is {self.tuner_interval:g}: it must be 0 seconds (off) or more"
            )

    def unread(self) -> dict[str, str]:
        unread = (
            {} if self.tunes else dict.fromkeys(_OF_TUNER, "--tuner-interval is 0, so that nothing is tuned")
        )
        if not self.group_rollouts:
            unread["training_rows"] = "--no-group-rollouts makes an update of each rollout"
        return unread

    def only_in_phases(self) -> dict[str, str]:
        return {
            "env_backend": "agents have their envs in the agent processes",
            "processes": "--agent-processes sets the number of agent processes",
            "alternate": "each agent steps on its own",
            "resets": "agents do not pause for learning",
        }

    def describe(self, envs: int, where: str) -> str:
        return (
            f"{counted(envs, 'agent', 'agents')} in {counted(self.agent_processes, 'process', 'processes')}, a model "
            f"{where} each for {counted(self.predictors, 'predictor', 'predictors')} and "
            f"{counted(self.trainers, 'trainer', 'trainers')}"
        )

    def with_acting_processes(self, envs: int, cores: int) -> Ga3cConfig:
        return dataclasses.replace(self, agent_processes=self.agent_processes or even_share(envs, cores))

    def rollouts_of_update(self, envs: int) -> int:
        return envs if self.group_rollouts else 1

    @property
    def has_acting_processes(self) -> bool:
        return True

    @property
    def in_phases(self) -> bool:
        return False

    @property
    def cluster_refusal(self) -> str:
        return "its agents request each action through memory that machines do not share"

    @property
    def cuda_graphs_refusal(self) -> str:
        return "its threads use one network at the same time, on batches of any size"

    @property
    def observation_statistics_refusal(self) -> str:
        return ""

    @property
    def reward_statistics_refusal(self) -> str:
        return ""

    @property
    def tunes(self) -> bool:
        return self.tuner_interval > 0

    def least_rollouts(self, horizon: int) -> int:
        """Rollouts of `horizon` steps that a trainer waits for before an update."""
        return -(-self.training_rows // horizon) or 1 if self.group_rollouts else 1

    @property
    def most_predictors(self) -> int:
        return max(self.predictors, self.tuner_most) if self.tunes else self.predictors

    @property
    def most_trainers(self) -> int:
        return max(self.trainers, self.tuner_most) if self.tunes else self.trainers

    def check_envs(self, envs: int) -> None:
        if self.agent_processes:
            check_even(envs, self.agent_processes, "agent_processes", "agent process")
        if 0 < self.training_queue < self.agent_processes:
            raise UsageError(
                f"--training-queue is {self.training_queue}, and there are {self.agent_processes} agent processes: it "
                "must have room for a rollout of each"
            )
