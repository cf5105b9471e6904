"""Settings of systems: the number of processes of each kind, and how far they may diverge."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated

from veldt.errors import UsageError
from veldt.formatting import counted
from veldt.setting_metadata import Unit, check_values
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class RolesConfig:
    """Settings of all systems."""

    learners: Annotated[int, Unit("processes")] = 1
    """Learner processes: each learns from its part of every batch, and all apply the mean of their gradients."""
    max_restarts: Annotated[int, Unit("restarts")] = 100
    """How often each process that dies, hangs or is stopped may be restarted before the run ends; synchronous learners
    restart together. Where it is not given, the run also ends after 3 failed starts of a process in a row, the same
    error of a process, or its death in an environment's first episode, 3 times in a row (each within 30 s of its
    start), or, of synchronous learners without a new checkpoint, 3 errors, or 3 deaths in one step of an episode."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.learners < 1:
            raise UsageError(f"--learners is {self.learners}: it must be at least 1")
        if self.max_restarts < 0:
            raise UsageError(f"--max-restarts is {self.max_restarts}: it must be 0 or more")

    def check_envs(self, envs: int) -> None:
        """UsageError where this number of envs cannot be divided evenly."""

    def only_with_replay(self) -> dict[str, str]:
        """Returns settings that must be 0 beside an algorithm without a replay buffer: what that would be good for, and
        what to do, as the end of a sentence."""
        return {}

    def unread(self) -> dict[str, str]:
        """Returns the settings that have no effect beside these values, and why."""
        return {}

    def rounded_away(self, envs: int) -> dict[str, str]:
        """Returns settings whose values are rounded to nothing with so many envs, each with the end of a sentence."""
        return {}

    def only_in_phases(self) -> dict[str, str]:
        """Returns settings of systems whose acting and learning alternate, and why this one does not read them."""
        return {}

    def describe(self, envs: int, where: str) -> str:
        """Returns the processes that act and learn, as a sentence begins; `where` is what each learner computes on."""
        learners = "a learner" if self.learners == 1 else f"{self.learners} learners, each"
        return f"{self.describe_envs(envs)}, {learners} {where}"

    def describe_envs(self, envs: int) -> str:
        """Returns the envs, and the processes that act in them where there are any."""
        return counted(envs, "env", "envs")

    def with_acting_processes(self, envs: int, cores: int) -> RolesConfig:
        """Returns these settings with the number of acting processes, where that is left open: one for each core, or
        fewer if so many envs cannot be divided evenly among them."""
        return self

    def rollouts_of_update(self, envs: int) -> int:
        """Returns the number of rollouts, each of one env, that an update of a learner has side by side, at most."""
        return envs // self.learners

    @property
    def has_acting_processes(self) -> bool:
        """Whether processes of their own act, which have the envs."""
        return False

    @property
    def in_phases(self) -> bool:
        """Whether acting and learning alternate in the same process."""
        return True

    @property
    def is_synchronised(self) -> bool:
        """Whether learners make each update together, from parts of one batch, and restart together."""
        return True

    @property
    def is_repeatable(self) -> bool:
        """Whether the results on a CPU depend on settings and seed only, not on how fast each process is."""
        return self.in_phases and self.is_synchronised

    @property
    def owns_envs(self) -> bool:
        """Whether each learner acts in its share of the envs, and learns from its own data only."""
        return False

    @property
    def in_one_process(self) -> bool:
        """Whether the run is one sampler-learner in the main process."""
        return False

    @property
    def resumes_as_a_whole(self) -> bool:
        """Whether the run restarts from its newest checkpoint when a role is lost, instead of the role alone."""
        return False

    @property
    def part_for_evaluator(self) -> float:
        """The part of a core's time for an evaluator process that plays beside training; 0: there is none."""
        return 0.0

    @property
    def cluster_refusal(self) -> str:
        """Why the processes cannot be placed on a cluster, as the end of a sentence; "" where they can."""
        return ""

    @property
    def cuda_graphs_refusal(self) -> str:
        """Why no process can compute by CUDA graphs, as the end of a sentence; "" where they can."""
        return ""

    @property
    def observation_statistics_refusal(self) -> str:
        """Why no process can keep statistics of all observations beside the weights that it publishes, as the end of a
        sentence; "" where the learners call `update_observation_statistics` with each row of training data once."""
        return "none of its processes updates them"

    @property
    def reward_statistics_refusal(self) -> str:
        """Why no process can keep the running return of each env, as the end of a sentence; "" where the learners have
        the envs' rollouts in order, and learn from them by `OnPolicySource`, or where actors send RUNNING_RETURN with
        their rollouts, and learners call `LearnerRole.with_normalised_rewards`."""
        return (
            "none of its processes has the rewards of an env in their order and updates them for all learners"
        )

    @property
    def statistics_refusals(self) -> dict[str, str]:
        """The settings that need such statistics, and why the system refuses them, "" where it does not."""
        return {
            "normalise_observations": self.observation_statistics_refusal,
            "normalise_rewards": self.reward_statistics_refusal,
        }


def even_share(envs: int, cores: int) -> int:
    """Returns the largest number of processes, at most one for each core, that the envs can be divided among evenly."""
    return max(n for n in range(1, min(cores, envs) + 1) if envs % n == 0)


def check_even(envs: int, processes: int, name: str, each: str) -> None:
    """UsageError where the envs cannot be divided evenly among the processes, the value of the setting `name`."""
    if envs % processes:
        lower = envs // processes * processes
        fits = " or ".join(f"{number:,}" for number in (lower, lower + processes) if number)
        raise UsageError(
            f"--num-envs is {envs} and {flag(name)} is {processes}: each {each} must get as many envs; take {fits} envs"
        )


@dataclass(frozen=True, kw_only=True)
class SynchronousConfig(RolesConfig):
    """The sampler-learners of a synchronous system."""

    learners: Annotated[int, Unit("processes")] = 1
    """Sampler-learners, each with its share of the envs and of every batch: all apply the mean of their gradients. With
    accelerators, each has one."""
    second_batch_size: Annotated[int, Unit("transitions")] = 0
    """Trains a second learner with batches of this size on the replay buffer, beside the one that acts; it begins with
    the same weights, and changes nothing of the run (Stooke & Abbeel 2018, section 5.5). 0: there is none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.second_batch_size < 0:
            raise UsageError(f"--second-batch-size is {self.second_batch_size}: it must be 0 (none) or more")
        if self.second_batch_size and self.learners > 1:
            raise UsageError(
                f"--second-batch-size is {self.second_batch_size}, and --learners is {self.learners}: a second learner "
                "is trained beside a single one; take --learners 1, or leave it out"
            )

    def check_envs(self, envs: int) -> None:
        check_even(envs, self.learners, "learners", "learner")

    def only_with_replay(self) -> dict[str, str]:
        return {"second_batch_size": "that a second learner could share: leave it out"}

    @property
    def in_one_process(self) -> bool:
        return self.learners == 1

    @property
    def resumes_as_a_whole(self) -> bool:
        return True

    @property
    def cluster_refusal(self) -> str:
        return "" if self.learners > 1 else "it learns and acts in one process: take more --learners"

    @property
    def observation_statistics_refusal(self) -> str:
        return ""

    @property
    def reward_statistics_refusal(self) -> str:
        return ""


@dataclass(frozen=True, kw_only=True)
class ActorsConfig(RolesConfig):
    """The processes of a system with separate actors and learners, and the edges between them."""

    actors: Annotated[int, Unit("processes")] = 0
    """Actor processes, each with its share of the envs; 0: one for each core that may be used."""
    actor_sync_interval: Annotated[int, Unit("steps")] = 100
    """Steps of an actor between two checks for newer weights."""
    publish_every: Annotated[int, Unit("updates")] = 1
    """Updates between two versions of the weights that the learner publishes to actors."""
    evaluator_share: Annotated[float, Unit("of a core")] = 0.0
    """An evaluator process plays episodes with the newest policy, using this part of a core's time; their returns are
    the run's score. 0: no such process; the score is of the training episodes, with --exploration ladder of the half of
    the envs that explores least."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("actor_sync_interval", "publish_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.actors < 0:
            raise UsageError(f"--actors is {self.actors}: it must be 0 (automatic) or more")
        if not 0 <= self.evaluator_share <= 1:
            raise UsageError(f"--evaluator-share is {self.evaluator_share}: it must be in [0, 1]")

    def check_envs(self, envs: int) -> None:
        if self.actors:
            check_even(envs, self.actors, "actors", "actor")

    def only_in_phases(self) -> dict[str, str]:
        return {
            "env_backend": "actors have their envs in their own processes",
            "processes": "--actors sets the number of processes that act",
            "alternate": "each actor has one group of envs",
            "resets": "actors do not pause for learning",
        }

    def describe_envs(self, envs: int) -> str:
        return f"{counted(self.actors, 'actor', 'actors')} x {counted(envs // self.actors, 'env', 'envs')}"

    def with_acting_processes(self, envs: int, cores: int) -> ActorsConfig:
        return dataclasses.replace(self, actors=self.actors or even_share(envs, cores))

    @property
    def part_for_evaluator(self) -> float:
        return self.evaluator_share

    @property
    def has_acting_processes(self) -> bool:
        return not self.in_phases

    @property
    def in_phases(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class ApexConfig(ActorsConfig):
    """The processes of Ape-X, and the edges between them."""

    shards: Annotated[int, Unit("processes")] = 1
    """Replay shards: processes that the replay buffer is divided among, at most one for each actor."""
    actor_chunk: Annotated[int, Unit("steps")] = 50
    """Steps that an actor collects before it sends them to its replay shard."""
    batches_ahead: Annotated[int, Unit("batches")] = 16
    """Batches that are sampled before the learner needs them."""
    insertions: Annotated[int, Unit("copies")] = 1
    """Copies of each step in the replay buffer, which so holds more recent steps (Horgan et al. 2018, figure 6)."""
    rate_limit_tolerance: Annotated[float, Unit("samples")] = 0.0
    """Samples that may be due by --training-intensity before actors wait for the learner; 0: twice the minimum with
    which the two sides cannot wait for each other for ever."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shards", "actor_chunk", "batches_ahead", "insertions"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.rate_limit_tolerance < 0:
            raise UsageError(
                f"--rate-limit-tolerance is {self.rate_limit_tolerance:g}: it must be 0 (automatic) or more"
            )

    def check_envs(self, envs: int) -> None:
        super().check_envs(envs)
        most = self.actors or envs
        if self.shards > most:
            are = counted(most, "actor", "actors")
            raise UsageError(
                f"--shards is {self.shards}, for {are} that can feed them: take at most as many shards as actors"
            )

    def only_in_phases(self) -> dict[str, str]:
        why = "acting and learning do not take turns (--actor-chunk sets how much an actor sends at once)"
        return super().only_in_phases() | {"horizon": why}

    @property
    def observation_statistics_refusal(self) -> str:
        return "its learners see only batches that are sampled from the replay buffer"

    def rows(self, width: int, n_step: int) -> int:
        """Returns the steps of each of an actor's `width` envs that are sent at once: enough for one return."""
        return max(math.ceil(self.actor_chunk / width), n_step)
