"""A trained policy that chooses actions: `veldt.load` returns it."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from veldt.algorithms.base import Algorithm, Forward, OnPolicy
from veldt.algorithms.rollout import Observation
from veldt.config.train_config import TrainConfig
from veldt.envs.from_gymnasium.observation_batches import field_named
from veldt.envs.from_gymnasium.observation_codec import ObservationCodec
from veldt.envs.seeding import ACTION, NETWORK, derive_seed, uniform
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError
from veldt.formatting import gib
from veldt.learning.checked_results import checked_estimate
from veldt.networks import normaliser
from veldt.networks.build import build_torso
from veldt.networks.own import NO_PARTS, WHOLE_PARTS, OwnModules, OwnParts, make_own
from veldt.networks.own_core import OwnCore
from veldt.networks.precision import Network
from veldt.networks.recurrent import LSTM, RecurrentState, first_tensor, recurrent_size_of
from veldt.runtime.devices import one_thread, to_device
from veldt.runtime.system_memory import available_memory
from veldt.runtime.usual_torch import kept_random_numbers, usual_torch
from veldt.sampling.checked_actions import checked_act, checked_best, num_noise

_BYTES_PER_WEIGHT = 16  # fp32: the weight, its gradient, and an update rule's state
_SURELY_FITS = 2**30
# What an algorithm that does not define a method lacks, for messages.
_LACKS = {"value": "no values", "action_values": "no values of actions", "policy": "no stochastic policy"}
_METHODS = {"policy": "distribution"}  # the agent's, where its name is another than the algorithm's

# Calls of an env whose results have so many elements, the observation first and a dict last.
_CALLS = {2: "observation, info = env.reset()", 5: "observation, reward, ... = env.step(action)"}


def make_network(config: TrainConfig, spec: EnvSpec, own: OwnParts = NO_PARTS) -> Network:
    """Returns the network of a run with its initial weights, which are a function of the run's seed.

    Args:
        own: the user's own parts that are callables; others are named in the configuration.

    Raises:
        UsageError, NetworkError: an own part does not fit, or raised an exception.
    """
    algorithm = config.make_algorithm(spec.action)
    parts = own.over(config.network)
    assert parts.network is not None
    _refuse_too_large(config.network.hidden)
    # The orthogonal initialisation gives other numbers with another number of threads.
    with kept_random_numbers(), one_thread():
        torch.manual_seed(derive_seed(config.run.seed, NETWORK))
        build = functools.partial(
            build_torso, parts.network, spec, config.network.hidden, layer_norm=config.network.layer_norm
        )
        if any(getattr(parts, part) for part in WHOLE_PARTS):
            network = algorithm.own_network(OwnModules.make(parts, spec), build)
        elif isinstance(algorithm, OnPolicy):
            network = algorithm.network(build, _core_maker(parts, config.network.lstm))
        else:
            network = algorithm.network(build)
    if not isinstance(network, torch.nn.Module) or next(network.parameters(), None) is None:
        got = "a module without parameters" if isinstance(network, torch.nn.Module) else repr(network)
        raise UsageError(
            f"{algorithm.name}: {type(algorithm).__name__}.network returned {got}: it must return an nn.Module with "
            "parameters"
        )
    if config.network.normalise_observations:
        normaliser.put_in_front(network, spec)
    return network


def _refuse_too_large(hidden: Sequence[int]) -> None:
    """Raises UsageError if an MLP's layers are sure not to fit into memory: torch would say so in its own words."""
    needed = _BYTES_PER_WEIGHT * sum(inputs * outputs for inputs, outputs in itertools.pairwise(hidden))
    if needed > _SURELY_FITS and needed > (available := available_memory()):
        raise UsageError(
            f"--hidden is {' '.join(map(str, hidden))}: such layers need {gib(needed)} to be trained, and "
            f"{gib(available)} are available; take smaller ones"
        )


def _core_maker(parts: OwnParts, lstm: int) -> Callable[[int], nn.Module] | None:
    """Returns what makes the recurrent core for a number of features; None if there is none."""
    if (core := parts.core) is not None:
        return lambda inputs: OwnCore(
            make_own("core", core, inputs, f"{inputs} features"), inputs, f"core {parts.names()['core']}"
        )
    return functools.partial(LSTM, units=lstm) if lstm else None


class Agent:
    """Chooses actions for observations of one env, or of N.

    Its methods take one observation as the run's env returns it: for a Gymnasium env the observation itself, for Atari
    the stacked frames, uint8 [stack, H, W] (`make_env()` returns an env with these observations). They also take a
    batch of N, and then results have a first axis of N, too. A batch is an array with a first axis, as a Gymnasium
    `VectorEnv` returns it: of a Dict space a dictionary of such arrays, of a Tuple space a tuple of such arrays; or it
    is a list of N single observations. With --normalise-observations they still take raw ones: the policy normalises
    them, by the statistics of its training, which acting does not change. ValueError if the observation does not have
    the shape that the space defines, or has NaN or an infinite number.

    A policy with an LSTM keeps a recurrent state from `act` to `act`: call `reset()` when an episode begins.
    """

    def __init__(
        self,
        config: TrainConfig,
        source: EnvSource,
        spec: EnvSpec,
        network: Network,
        *,
        path: Path,
        step: int,
        device: torch.device,
    ) -> None:
        self.config, self.source, self.spec = config, source, spec
        self.path, self.step = path, step
        self._algorithm: Algorithm = config.make_algorithm(spec.action)
        # Dropout and batch normalisation in a network of the user's own are in evaluation mode outside of training.
        self._network, self._device = network.eval(), device
        self._codec: ObservationCodec | None = None
        self._acted, self._episode_step_N = 0, np.zeros(1, np.int64)
        self._recurrent_state: RecurrentState | None = None

    def reset(self, ended_N: npt.ArrayLike | None = None) -> None:
        """Clears the recurrent state (of an LSTM): the next observation is the first of an episode.

        Args:
            ended_N: of the N envs of the last `act`, bool [N], whose states are cleared; default all. Before the first
                `act` there is nothing to clear.

        Raises:
            ValueError: it is not bool [N].
        """
        if ended_N is None:
            self._episode_step_N[:] = 0
            return
        ended = np.atleast_1d(ended_N)
        if ended.dtype != np.bool_ or ended.ndim != 1:
            raise ValueError(
                f"ended_N is {ended.dtype} {list(ended.shape)}: it must be bool [N], one entry for each env"
            )
        if self._recurrent_state is None:
            return
        if len(ended) != len(self._episode_step_N):
            raise ValueError(
                f"ended_N has {len(ended)} entries, and the last act got {len(self._episode_step_N)} observations: "
                "give one for each"
            )
        self._episode_step_N[ended] = 0

    @usual_torch()
    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Returns the action, or an array of N actions, as the env's action space defines them.

        Args:
            observation: one, or N; see the class.
            greedy: take the most likely action instead of a sample from the policy. The same run and the same sequence
                of calls give the same samples.
        """
        inputs, is_single = self._inputs(observation)
        width = len(first_tensor(inputs))
        noise = uniform(self.config.run.seed, ACTION, np.arange(width), np.array([self._acted]), self.noise)
        if self._recurrent_state is None or len(self._episode_step_N) != width:
            self._recurrent_state = self.initial_recurrent_state(width)
            self._episode_step_N = np.zeros(width, np.int64)
        forward = self._recurrent_state.at(slice(0, width), self._episode_step_N)
        stored = self.choose(inputs, noise[0], greedy, forward)
        self._acted, self._episode_step_N = self._acted + 1, self._episode_step_N + 1
        actions = [self.spec.action.to_env(each) for each in stored]
        return actions[0] if is_single else np.array(actions)

    @usual_torch()
    @torch.no_grad()
    def value(self, observation: Any) -> Any:
        """Returns the estimated (discounted) return from the observation, float or float32 [N].

        It is in units of the rewards that the run learns from, which may be clipped. With --normalise-rewards these
        are raw rewards divided by a deviation that changed during training: the value is the return in units of that
        deviation. A recurrent policy takes the observation as the first of an episode.

        Raises:
            UsageError: the run's algorithm estimates no values.
        """
        value_N = self._asked("value", observation)
        return value_N.item() if value_N.ndim == 0 else value_N

    @usual_torch()
    @torch.no_grad()
    def action_values(self, observation: Any) -> np.ndarray:
        """Returns Q of each action, float32 [A] or [N, A]. UsageError if the algorithm has none (such as PPO)."""
        values: np.ndarray = self._asked("action_values", observation)
        return values

    @usual_torch()
    @torch.no_grad()
    def distribution(self, observation: Any) -> dict[str, np.ndarray]:
        """Returns the policy's distribution of actions, each float32 [...] or [N, ...].

        For discrete actions `probabilities` [A]; for several, `probabilities_0` and so on; for continuous ones the
        `mean` and `deviation` [D] of normal distributions, in [-1, 1] between the bounds of the action space.

        Raises:
            UsageError: the run's algorithm has no stochastic policy (such as DQN, or Categorical DQN: its
                distribution is that of returns, of which `action_values` has the means).
        """
        described: dict[str, np.ndarray] = self._asked("policy", observation)
        return described

    def _asked(self, method: str, observation: Any) -> Any:
        """Returns the result of the algorithm's method as arrays, without the first axis for one observation."""
        if not self._estimates(method):
            others = [_METHODS.get(name, name) for name in _LACKS if self._estimates(name)]
            instead = " or ".join(others) or "actions (act) alone"
            raise UsageError(f"{self._algorithm.name} has {_LACKS[method]}: ask for {instead}")
        inputs, is_single = self._inputs(observation)
        result = checked_estimate(
            getattr(self._algorithm, method)(self._network, self._on_device(inputs)),
            method,
            len(first_tensor(inputs)),
            self._algorithm,
        )

        def array(tensor: Tensor) -> np.ndarray:
            values = tensor.float().cpu().numpy()
            return values[0] if is_single else values

        return (
            {name: array(part) for name, part in result.items()}
            if isinstance(result, dict)
            else array(result)
        )

    def _estimates(self, method: str) -> bool:
        """Whether the algorithm defines this one of the methods in `_LACKS`."""
        return getattr(type(self._algorithm), method) is not getattr(Algorithm, method)

    @torch.no_grad()
    def choose(
        self, observation: Observation, noise_NK: np.ndarray, greedy: bool, forward: Forward
    ) -> np.ndarray:
        """Returns stored actions [N, ...] for network inputs [N, ...] on any device and uniform noise [N, noise].

        `forward` comes from `initial_recurrent_state` and must be the one for the envs of these observations.
        """
        observation = self._on_device(observation)
        if greedy:
            returned: Any = self._algorithm.best_action(forward, observation)
            action = checked_best(returned, len(noise_NK), self.spec.action, self._algorithm)
        else:
            noise = self._algorithm.prepare_noise(torch.from_numpy(noise_NK), None)
            noise = to_device(noise, self._device)
            returned = self._algorithm.act(forward, observation, noise)
            action, _ = checked_act(returned, len(noise_NK), self.spec.action, self._algorithm)
        return action

    def initial_recurrent_state(self, width: int) -> RecurrentState:
        """Returns the recurrent state for `width` envs, cleared."""
        return RecurrentState(self._network, recurrent_size_of(self._network), width, self._device)

    @property
    def network(self) -> Network:
        """The policy's network, on the agent's device."""
        return self._network

    @property
    def noise(self) -> int:
        """Number of uniform random numbers that one action needs."""
        return num_noise(self._algorithm, self._network)

    def make_env(self, *, render: bool = False) -> gymnasium.Env[Any, Any]:
        """Returns an env like those of training; `act` takes its observations."""
        if self.source.is_atari:
            from veldt.envs.gymnasium_atari import AtariEnv

            return AtariEnv(self.source.name, self.config.atari)
        return self.source.make(render=render)

    def _on_device(self, observation: Observation) -> Observation:
        if isinstance(observation, dict):
            return {name: to_device(tensor, self._device) for name, tensor in observation.items()}
        return to_device(observation, self._device)

    def _inputs(self, observation: Any) -> tuple[Observation, bool]:
        """Returns the network's input [N, ...], and whether it is of a single observation."""
        observation = _as_arrays(observation)
        try:
            return self._frames(observation) if self.source.is_atari else self._rows(observation)
        except ValueError as error:
            is_tuple = self._codec is not None and self._codec.takes_tuples
            if is_tuple or (advice := _if_not_unpacked(observation)) is None:
                raise
            raise ValueError(advice) from error

    def _frames(self, observation: Any) -> tuple[Tensor, bool]:
        """As `_inputs`, for Atari."""
        frames, declared = np.ascontiguousarray(observation), self.spec.observation[""].network_shape
        if frames.shape != declared and frames.shape[1:] != declared:
            raise ValueError(f"the observation has shape {frames.shape}, and the policy takes {declared}")
        if frames.dtype != np.uint8:
            raise ValueError(f"the observation has dtype {frames.dtype}, and the policy takes uint8")
        is_single = frames.shape == declared
        return torch.from_numpy(frames[None] if is_single else frames), is_single

    def _rows(self, observation: Any) -> tuple[Observation, bool]:
        """As `_inputs`, for every other env."""
        if self._codec is None:
            with contextlib.closing(self.source.make()) as env:
                self._codec = ObservationCodec(env.observation_space)
        rows, is_single = self._codec.encoded(observation)
        tensors = {}
        for name, array_N in zip(self.spec.observation, rows, strict=True):
            if array_N.dtype.kind == "f" and not np.isfinite(array_N).all():
                raise ValueError(_not_finite(name, array_N, is_single))
            tensors[name] = torch.from_numpy(array_N)
        return tensors if self.spec.is_dict else tensors[""], is_single


def _as_arrays(observation: Any) -> Any:
    """Returns the observation with its tensors, of any device and with or without gradients, as arrays.

    NumPy converts only tensors on the CPU that require no gradient.
    """
    match observation:
        case Tensor():
            return observation.numpy(force=True)
        case Mapping():
            return {name: _as_arrays(part) for name, part in observation.items()}
        case list() | tuple() if any(isinstance(part, Tensor | Mapping | tuple) for part in observation):
            parts = [_as_arrays(part) for part in observation]
            return parts if isinstance(observation, list) else tuple(parts)
    return observation


def _not_finite(name: str, array_N: np.ndarray, is_single: bool) -> str:
    """Returns a sentence on the first number of a field's observations that is not finite."""
    n, *index = np.argwhere(~np.isfinite(array_N))[0].tolist()
    place = index if is_single else [n, *index]
    return f"the observation{field_named(name)} has {array_N[n, *index]} at {place}: give finite numbers"


def _if_not_unpacked(observation: Any) -> str | None:
    """Returns a sentence if this is the result of an env's `reset` or `step`, and no observation; None otherwise."""
    if not (isinstance(observation, tuple) and observation and isinstance(observation[-1], dict)):
        return None
    call = _CALLS.get(len(observation))
    return call and (
        f"the observation is a tuple of {len(observation)} that ends with a dict, the whole result of a call: give "
        f"only its first element, {call}"
    )
