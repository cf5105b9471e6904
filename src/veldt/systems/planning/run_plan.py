"""Makes the run plan: from a configuration, decides everything that all systems need, with reasons for the user."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from veldt.agent import Agent, make_network
from veldt.algorithms.base import Algorithm, Forward
from veldt.algorithms.rollout import Observation
from veldt.config.run_request import RunRequest
from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import TrainConfig
from veldt.envs.action_replay import ActionsUntil
from veldt.envs.arrangement import Arrangement, arrange, make_vector_envs, probe_spec
from veldt.envs.in_process import VectorEnvs
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.errors import UsageError
from veldt.exchange.graph import Graph
from veldt.formatting import gib
from veldt.networks import normaliser
from veldt.networks.flat import FlatParameters
from veldt.networks.own import Factory, OwnParts
from veldt.networks.precision import CompiledForward, Network, apply_precision
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device, inference_threads, num_accelerators
from veldt.runtime.system_memory import available_memory
from veldt.sampling.observations import blank_observation
from veldt.sampling.sampler import InferencePlace
from veldt.systems.planning.autotune import (
    ThreadTimes,
    choose_arithmetic,
    is_small,
    time_arithmetic,
    time_threads,
)
from veldt.systems.planning.sentences import describe
from veldt.user_code import by_value

_SURELY_FITS = 2**30  # bytes
_REPLAY_THREADS = 8  # more than these do not gather frames faster: memory is the limit


class _ByValue:
    """Pickles a function by value, so that this run's processes get it even if a script defines it."""

    def __init__(self, function: Factory) -> None:
        self._function = function

    def __call__(self, argument: Any) -> nn.Module:
        return self._function(argument)

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return by_value.loads, (by_value.dumps(self._function),)


@dataclass(frozen=True)
class RunPlan:
    """A run's decisions: `config` has no `auto` left, `decisions` are sentences for the user.

    `own` are the user's own parts of the network that are callables, `given` the settings that come from the user.
    `may_change_threads`: whether the number of training threads is veldt's choice, and matters.
    """

    config: TrainConfig
    source: EnvSource
    spec: EnvSpec
    arrangement: Arrangement
    device: torch.device
    own: OwnParts
    decisions: tuple[str, ...]
    given: Mapping[str, Any]
    may_change_threads: bool = False

    def graph(self, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
        """Returns the roles of the run in directory `run`, new or resumed from `checkpoint`, and their edges.

        Raises:
            UsageError: settings of several roles do not fit together.
        """
        graph: Graph = SYSTEMS[self.config.system].load_graph()(self, run, checkpoint)
        return graph

    @property
    def for_roles(self) -> RunPlan:
        """This run plan with own parts that can be pickled, for roles."""
        return dataclasses.replace(self, own=self.own_parts_for_roles)

    @property
    def own_parts_for_roles(self) -> OwnParts:
        """`own` for roles, whose processes have not imported the script that may define its functions."""
        return self.own.mapped(_ByValue)

    @property
    def horizon(self) -> int:
        return self.algorithm().horizon(self.config.phase_width)

    def algorithm(self) -> Algorithm:
        return self.config.make_algorithm(self.spec.action)

    def network(self) -> tuple[Network, FlatParameters]:
        """Returns the network on its device in its precision, and its flat parameters."""
        network = self._make_network()
        return network, apply_precision(network, self.config.run.precision, self.device)

    def shared_parameters(self) -> FlatParameters:
        """Returns the parameters of a new network, the same as each learner's, on the CPU.

        Raises UsageError for a network with buffers, which learners would not share (but they do share the statistics
        of observations).
        """
        network = self._make_network()
        parameters = apply_precision(network, self.config.run.precision, torch.device("cpu"))
        buffers = parameters.tensors().keys() - set(parameters.names)
        if others := sorted(name for name in buffers if not name.startswith(f"{normaliser.NAME}.")):
            raise UsageError(
                f"the network has the buffer '{others[0]}', and learners share parameters only: take a network without "
                "(layer normalisation instead of batch normalisation, say), or a recipe with one learner"
            )
        return parameters

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the initial weights by name: what the weights edge carries."""
        return self.network()[1].arrays()

    def agent(self, network: Network, path: Path) -> Agent:
        """Returns the policy of a copy of the network that is being trained: an agent sets it to evaluation mode."""
        return Agent(self.config, self.source, self.spec, network, path=path, step=0, device=self.device)

    def forward(self, network: Network, on_fallback: Callable[[str], None]) -> Forward:
        """Returns what evaluates the network, compiled if the run compiles.

        `on_fallback` gets a sentence if the compilation fails, and evaluation goes on without it.
        """
        run = self.config.run
        if not run.compiles:
            return network
        return CompiledForward(network, on_fallback, cuda_graphs=run.cuda_graphs)

    @property
    def gpus_of_learner(self) -> int:
        """GPUs that each learning process needs; see `Role.gpus`."""
        return int(self.device.type != "cpu")

    @property
    def training_threads(self) -> int | None:
        """Torch's number of threads for training; None on an accelerator, where it does not matter."""
        return self.config.run.threads if self.device.type == "cpu" else None

    def time_threads(self) -> ThreadTimes:
        """Times the passes of an update on one thread and on all, of a network that is only made for that."""
        return time_threads(self._make_network, self._update_observation, self.config.run.precision)

    def time_arithmetic(self, kinds: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
        """Returns the seconds of the passes of an update for each of the pairs (precision, threads)."""
        return time_arithmetic(self._make_network, self._update_observation, self.device, kinds)

    @property
    def update_rows(self) -> int:
        """The rows of one update on one device."""
        return _update_rows(self.config, self.algorithm())

    @property
    def _update_observation(self) -> Observation:
        return blank_observation(self.spec, self.update_rows, self.device)

    def _make_network(self) -> Network:
        return make_network(self.config, self.spec, self.own)

    def inference_threads_beside(self, training: int) -> int:
        """Returns torch's number of threads for inference on the CPU, where `training` threads train."""
        return inference_threads(training, self.arrangement.groups, self.arrangement.backend == "workers")

    @property
    def inference_threads(self) -> int | None:
        """Torch's number of threads for inference; None on an accelerator."""
        if self.device.type != "cpu":
            return None
        return self.inference_threads_beside(self.config.run.threads)

    @property
    def replay_threads(self) -> int:
        """Threads that assemble a learner's batches of replay, while its envs wait.

        On the CPU they are those of training. An accelerator leaves the cores free, and one core would take longer to
        gather the frames of a batch than the accelerator takes to learn from it.
        """
        if self.device.type == "cpu":
            return self.config.run.threads
        return max(1, min(_REPLAY_THREADS, len(allowed_cores()) // self.config.roles.learners))

    @property
    def inference_place(self) -> InferencePlace:
        """Where the sampler's inference runs: on the envs' cores in turn, if one thread has no core of its own."""
        cores, threads = sorted(set(self.arrangement.cores)), self.inference_threads
        takes_turns = self.arrangement.groups > 1 and threads == 1 and cores == allowed_cores()
        return InferencePlace(self.device, threads, cores if takes_turns else ())

    def envs(
        self, settings: StepperSettings, steps: int, actions_until: ActionsUntil = lambda b, t: None
    ) -> VectorEnvs:
        """Returns the envs of the plan, with a slot of `steps` rows; see `make_vector_envs`.

        On the CPU they stack frames; an accelerator stacks them itself.
        """
        stacks = self.device.type == "cpu"
        return make_vector_envs(settings, self.spec, steps, self.arrangement, stacks, actions_until)


def make_run_plan(request: RunRequest) -> RunPlan:
    """Decides everything that the configuration leaves to `auto`, by measuring where it depends on the machine.

    A configuration returned by this function is returned unchanged, without measuring: so a resumed run has the same
    plan as before.

    Raises:
        UsageError: the device does not exist, or the algorithm cannot choose the env's actions.
        EnvError: the env failed.
    """
    config, source, own = request.config, request.source, request.own
    spec = probe_spec(source, config.atari)
    device, why_device = planned_device(config.run.device, partial(make_network, config, spec, own))
    algorithm, learners = config.make_algorithm(spec.action), config.roles.learners
    accelerators = min(num_accelerators(device), learners)
    if not config.roles.has_acting_processes:
        one = dataclasses.replace(config.envs, num_envs=config.envs.num_envs // learners)
        why = "as asked" if request.repeats is None else f"as in {request.repeats}"
        chosen = arrange(source, one, config.atari, accelerators, learners, why)
    else:
        chosen = Arrangement("in-process", 0, 1, (), "in the processes that act")
    config = _decided(config, chosen, device, accelerators)
    rows = _update_rows(config, algorithm)
    if device.type == "cpu":
        _refuse_too_large(spec, rows)
    arithmetic = choose_arithmetic(
        partial(make_network, config, spec, own),
        blank_observation(spec, rows, device),
        device,
        config.run.precision,
        config.run.threads,
    )
    horizon = _whole_number(algorithm, "horizon", config.phase_width, "steps")
    decisions = (*describe(config, chosen, horizon, accelerators), *why_device, *arithmetic.reasons)
    config = _replace_run(config, precision=arithmetic.precision, threads=arithmetic.threads)
    may_change_threads = (
        arithmetic.threads_matter
        and not config.roles.has_acting_processes
        and config.roles.learners == 1
        and request.repeats is None
        and "threads" not in {**request.given_before, **request.given}
    )
    return RunPlan(config, source, spec, chosen, device, own, decisions, request.given, may_change_threads)


def _whole_number(algorithm: Algorithm, method: str, width: int, of: str) -> int:
    """Returns what the method returns for `width` envs. UsageError if that is no number, as of the user's own class."""
    number = getattr(algorithm, method)(width)
    if not isinstance(number, int) or number < 1:
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.{method}({width}) returned {number!r}: it must be a whole "
            f"number of {of}, 1 or more"
        )
    return number


def planned_device(name: str, make_network: Callable[[], Network]) -> tuple[torch.device, tuple[str, ...]]:
    """Returns the device for `--device name`, and a sentence if `auto` leaves a GPU that is there to others.

    Raises UsageError as `choose_device` does.
    """
    device = choose_device(name)
    if name != "auto" or device.type == "cpu" or not is_small(make_network()):
        return device, ()
    return torch.device("cpu"), (f"device cpu (too small to gain from the {device.type.upper()} device)",)


def _update_rows(config: TrainConfig, algorithm: Algorithm) -> int:
    """Returns the rows of one update on one device. UsageError if the algorithm returns no number of rows."""
    return _whole_number(algorithm, "update_rows", config.phase_width, "rows") // config.batch_shares


def _refuse_too_large(spec: EnvSpec, rows: int) -> None:
    """Raises UsageError if an update's observations are sure not to fit into memory: torch's error names no setting."""
    fields = spec.observation.values()
    needed = rows * sum(math.prod(field.network_shape) * np.dtype(field.dtype).itemsize for field in fields)
    if needed > _SURELY_FITS and needed > (available := available_memory()):
        raise UsageError(
            f"an update learns from {rows:,} steps at once, whose observations need {gib(needed)}, and "
            f"{gib(available)} of memory are available: lower --batch-size, --horizon or --num-envs, "
            "whichever this recipe has"
        )


def _decided(
    config: TrainConfig, chosen: Arrangement, device: torch.device, accelerators: int
) -> TrainConfig:
    """Returns the config with the device, the places of the envs, and the number of processes and of their threads."""
    roles, run = config.roles, config.run
    cores = max(1, len(allowed_cores()) - accelerators)
    threads = run.threads
    if roles.has_acting_processes:
        # One acting process per core, half of the cores for learning on the CPU.
        roles = roles.with_acting_processes(config.envs.num_envs, cores)
        threads = threads or (1 if accelerators else max(1, cores // 2))
    elif roles.learners > 1:
        threads = threads or max(1, cores // roles.learners)
    run = dataclasses.replace(run, device=str(device), threads=threads)
    return dataclasses.replace(config, roles=roles, run=run, envs=chosen.resolve(config.envs))


def _replace_run(config: TrainConfig, **changes: Any) -> TrainConfig:
    return dataclasses.replace(config, run=dataclasses.replace(config.run, **changes))
