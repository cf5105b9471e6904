"""Makes the run plan: from a configuration, decides everything that all systems need, with reasons for the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import nn

from veldt.agent import Agent, make_network
from veldt.algorithms.base import Algorithm, Forward, OffPolicy
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.system_settings import ActorsConfig, RolesConfig
from veldt.config.train_config import TrainConfig
from veldt.envs.action_replay import ActionsUntil
from veldt.envs.arrangement import Plan, make_vector_envs, plan, probe_spec
from veldt.envs.env import StepperSettings
from veldt.envs.in_process import VectorEnvs
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.networks.flat import FlatParameters
from veldt.networks.own import NO_PARTS, Factory, OwnParts
from veldt.networks.precision import CompiledForward, Network, apply_precision
from veldt.replay.size import transitions_each
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device, inference_threads
from veldt.sampling.observations import blank_observation
from veldt.systems.planning.autotune import choose_arithmetic


class _ByValue:
    """Pickles a function by value, so that this run's processes get it even if a script defines it."""

    def __init__(self, function: Factory) -> None:
        self._function = function

    def __call__(self, argument: Any) -> nn.Module:
        return self._function(argument)

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return cloudpickle.loads, (cloudpickle.dumps(self._function),)


@dataclass(frozen=True)
class RunPlan:
    """A run's decisions: `config` has no `auto` left, `decisions` are sentences for the user.

    `own` are the user's own parts of the network that are callables.
    """

    config: TrainConfig
    source: EnvSource
    spec: EnvSpec
    plan: Plan
    device: torch.device
    own: OwnParts
    decisions: tuple[str, ...]

    @property
    def portable(self) -> RunPlan:
        """This run plan with own parts that can be pickled, for roles."""
        return dataclasses.replace(self, own=self.portable_network)

    @property
    def portable_network(self) -> OwnParts:
        """`own` for roles, whose processes have not imported the script that may define its functions."""
        return self.own.mapped(_ByValue)

    @property
    def horizon(self) -> int:
        return self.algorithm().horizon(self.config.phase_width)

    def algorithm(self) -> Algorithm:
        return self.config.make_algorithm(self.spec.action)

    def network(self) -> tuple[Network, FlatParameters]:
        """Returns the network on its device in its precision, and its flat parameters."""
        network = make_network(self.config, self.spec, self.own)
        return network, apply_precision(network, self.config.run.precision, self.device)

    def shared_parameters(self) -> FlatParameters:
        """Returns the parameters of a new network, the same as each learner's, on the CPU.

        Raises UsageError for a network with buffers, which learners would not share.
        """
        network = make_network(self.config, self.spec, self.own)
        parameters = apply_precision(network, self.config.run.precision, torch.device("cpu"))
        if others := sorted(parameters.tensors().keys() - set(parameters.names)):
            raise UsageError(
                f"the network has the buffer '{others[0]}', and learners share parameters only: take a network without "
                "(layer normalisation instead of batch normalisation, say), or a recipe with one learner"
            )
        return parameters

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the initial weights by name: what the weights edge carries."""
        return self.network()[1].arrays()

    def agent(self, network: Network, path: Path) -> Agent:
        """Returns the policy of a network that is still being trained."""
        return Agent(self.config, self.source, self.spec, network, path=path, step=0, device=self.device)

    def forward(self, network: Network, on_fallback: Callable[[str], None]) -> Forward:
        return CompiledForward(network, on_fallback) if self.config.run.compile else network

    @property
    def training_threads(self) -> int | None:
        """Torch's number of threads for training; None on an accelerator, where it does not matter."""
        return self.config.run.threads if self.device.type == "cpu" else None

    @property
    def inference_threads(self) -> int | None:
        """Torch's number of threads for inference; None on an accelerator."""
        if self.device.type != "cpu":
            return None
        return inference_threads(self.config.run.threads, self.plan.groups, self.plan.backend == "workers")

    @property
    def inference_cores(self) -> Sequence[int]:
        """The cores that inference takes in turn; empty if it has a core of its own, or uses several threads."""
        cores = sorted(set(self.plan.cores))
        alone = self.plan.groups > 1 and self.inference_threads == 1
        return cores if alone and cores == allowed_cores() else ()

    def envs(
        self, settings: StepperSettings, steps: int, actions_until: ActionsUntil = lambda b, t: None
    ) -> VectorEnvs:
        """Returns the envs of the plan, with a slot of `steps` rows; see `make_vector_envs`.

        On the CPU they stack frames; an accelerator stacks them itself.
        """
        stacks = self.device.type == "cpu"
        return make_vector_envs(settings, self.spec, steps, self.plan, stacks, actions_until)


def make_run_plan(config: TrainConfig, source: EnvSource, own: OwnParts = NO_PARTS) -> RunPlan:
    """Decides everything that `config` leaves to `auto`, by measuring where it depends on the machine.

    A configuration returned by this function is returned unchanged, without measuring: so a resumed run has the same
    plan as before.
    """
    device = choose_device(config.run.device)
    decisions = []
    spec = probe_spec(source, config.atari)
    algorithm = config.make_algorithm(spec.action)
    phase_width = config.phase_width
    horizon = algorithm.horizon(phase_width)
    accelerators = min(torch.cuda.device_count(), config.roles.learners) if device.type == "cuda" else 0
    if isinstance(algorithm, OffPolicy) and config.replay is not None:
        # Checked before anything is written or started: the size must fit.
        transitions_each(spec, config.envs.num_envs, config.replay, algorithm.returns)
    if isinstance(config.roles, ActorsConfig | Ga3cConfig) and not config.in_phases:
        chosen = Plan("in-process", 0, 1, (), "in the processes that act")
        config = _fill_roles(config, config.roles, accelerators)
        decisions.append(_describe_roles(config, accelerators))
    else:
        units = config.roles.learners
        width = config.envs.num_envs // units
        one = dataclasses.replace(config.envs, num_envs=width)
        chosen = plan(source, one, config.atari, accelerators, units)
        description = _describe_envs(chosen, width, horizon, "this" if config.in_one_process else "its own")
        decisions.append(description if units == 1 else f"{units} learners, each with {description}")
        if isinstance(config.learn, OffPolicyConfig):
            decisions.append(_describe_phase(config.learn, phase_width))
        if units > 1:
            threads = max(1, (len(allowed_cores()) - accelerators) // units)
            config = _replace_run(config, threads=config.run.threads or threads)
    config = dataclasses.replace(config, envs=chosen.resolve(config.envs))
    config = _replace_run(config, device=str(device))
    rows = algorithm.update_rows(phase_width) // config.batch_shares
    arithmetic = choose_arithmetic(
        lambda: make_network(config, spec, own),
        blank_observation(spec, rows, device),
        device,
        config.run.precision,
        config.run.threads,
    )
    config = _replace_run(config, precision=arithmetic.precision, threads=arithmetic.threads)
    decisions += arithmetic.reasons
    run_plan = RunPlan(config, source, spec, chosen, device, own, tuple(decisions))
    if config.roles.learners > 1:
        run_plan.shared_parameters()  # raises an error for a network that cannot be shared
    return run_plan


def _fill_roles(config: TrainConfig, roles: ActorsConfig | Ga3cConfig, accelerators: int) -> TrainConfig:
    """Returns the config with open settings filled: one acting process per core, half of the cores for learning on the
    CPU."""
    cores = max(1, len(allowed_cores()) - accelerators)
    envs = config.envs.num_envs
    count = max(n for n in range(1, min(cores, envs) + 1) if envs % n == 0)
    filled: RolesConfig
    if isinstance(roles, Ga3cConfig):
        filled = dataclasses.replace(roles, agent_processes=roles.agent_processes or count)
    else:
        filled = dataclasses.replace(roles, actors=roles.actors or count)
    threads = config.run.threads or (1 if accelerators else max(1, cores // 2))
    return _replace_run(dataclasses.replace(config, roles=filled), threads=threads)


def _describe_roles(config: TrainConfig, accelerators: int) -> str:
    roles, threads = config.roles, config.run.threads
    cores, envs = len(allowed_cores()), config.envs.num_envs
    where = "on the accelerator" if accelerators else f"with {counted(threads, 'thread', 'threads')}"
    if isinstance(roles, Ga3cConfig):
        return (
            f"{counted(envs, 'agent', 'agents')} in {counted(roles.agent_processes, 'process', 'processes')}, a model "
            f"{where} each for {counted(roles.predictors, 'predictor', 'predictors')} and "
            f"{counted(roles.trainers, 'trainer', 'trainers')}, on {counted(cores, 'core', 'cores')}"
        )
    assert isinstance(roles, ActorsConfig)
    actors = roles.actors
    width = envs // actors
    learners = "a learner" if roles.learners == 1 else f"{roles.learners} learners, each"
    return (
        f"{counted(actors, 'actor', 'actors')} x {counted(width, 'env', 'envs')}, {learners} {where}, on "
        f"{counted(cores, 'core', 'cores')}"
    )


def _replace_run(config: TrainConfig, **changes: Any) -> TrainConfig:
    return dataclasses.replace(config, run=dataclasses.replace(config.run, **changes))


def _describe_envs(chosen: Plan, envs: int, horizon: int, whose: str) -> str:
    if chosen.backend == "in-process":
        each = counted(envs, "env", "envs")
        return f"{each} x {horizon} steps, in {whose} process ({chosen.reason})"
    groups = "two alternating groups" if chosen.groups == 2 else "one group"
    cores = sorted(set(chosen.cores))
    where = f"{counted(chosen.processes, 'process', 'processes')} on {'core' if len(cores) == 1 else 'cores'}"
    return (
        f"{counted(envs, 'env', 'envs')} x {horizon} steps, in {where} "
        f"{', '.join(map(str, cores))}, {groups} ({chosen.reason})"
    )


def _describe_phase(learn: OffPolicyConfig, envs: int) -> str:
    updates = learn.updates_per_phase(envs)
    return (
        f"after each {learn.steps_per_phase(envs) * envs:,} steps {updates:g} "
        f"{'update' if updates == 1 else 'updates'} of {learn.batch_size:,} transitions (each step is used "
        f"{learn.training_intensity:g} times), step size {learn.scaled_learning_rate()}"
    )


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
