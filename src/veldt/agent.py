"""A trained policy that chooses actions: `veldt.load` returns it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from veldt.algorithms.base import Algorithm, Forward, OnPolicy
from veldt.algorithms.rollout import Observation
from veldt.config.train_config import TrainConfig
from veldt.envs.env import ObservationCodec
from veldt.envs.seeding import ACTION, NETWORK, derive_seed, uniform
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.networks.build import build_torso
from veldt.networks.own import NO_PARTS, WHOLE_PARTS, OwnModules, OwnParts, make_own
from veldt.networks.own_core import OwnCore
from veldt.networks.precision import Network
from veldt.networks.recurrent import LSTM, RecurrentState, recurrent_size_of
from veldt.runtime.devices import one_thread


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
    # The orthogonal initialisation gives other numbers with another number of threads.
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(derive_seed(config.run.seed, NETWORK))
        build = functools.partial(
            build_torso, parts.network, spec, config.network.hidden, layer_norm=config.network.layer_norm
        )
        if any(getattr(parts, part) for part in WHOLE_PARTS):
            return algorithm.own_network(OwnModules.make(parts, spec), build)
        if not isinstance(algorithm, OnPolicy):
            return algorithm.network(build)
        return algorithm.network(build, _core_maker(parts, config.network.lstm))


def _core_maker(parts: OwnParts, lstm: int) -> Callable[[int], nn.Module] | None:
    """Returns what makes the recurrent core for a number of features; None if there is none."""
    if (core := parts.core) is not None:
        return lambda inputs: OwnCore(
            make_own("core", core, inputs, f"{inputs} features"), inputs, f"core {parts.names()['core']}"
        )
    return functools.partial(LSTM, units=lstm) if lstm else None


class Agent:
    """Chooses one action for one observation of one env.

    `act` takes an observation as the run's env returns it: for a Gymnasium env the observation itself, for Atari the
    stacked frames, uint8 [stack, H, W] (`make_env()` returns an env with these observations). A policy with an LSTM
    keeps a recurrent state from call to call: call `reset()` when an episode begins.
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
        self._network, self._device = network, device
        self._codec: ObservationCodec | None = None
        self._acted, self._episode_step = 0, 0
        self._recurrent_state: RecurrentState | None = None

    def reset(self) -> None:
        """Clears the recurrent state (of an LSTM): the next observation is the first of an episode."""
        self._episode_step = 0

    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Returns the action for one observation, as the env's action space defines it.

        Args:
            observation: as the env's observation space defines it, without a batch axis.
            greedy: take the most likely action instead of a sample from the policy. The same run and the same sequence
                of calls give the same samples.

        Raises:
            ValueError: the observation does not have the shape that the space defines.
        """
        fields = self._encode(observation)
        inputs = {name: torch.from_numpy(array[None]) for name, array in fields.items()}
        noise = uniform(self.config.run.seed, ACTION, np.zeros(1), np.array([self._acted]), self.noise)
        if self._recurrent_state is None:
            self._recurrent_state = self.initial_recurrent_state(1)
        forward = self._recurrent_state.at(slice(0, 1), np.array([self._episode_step]))
        self._acted, self._episode_step = self._acted + 1, self._episode_step + 1
        stored = self.choose(inputs if self.spec.is_dict else inputs[""], noise[0], greedy, forward)[0]
        return self.spec.action.to_env(stored)

    @torch.no_grad()
    def choose(
        self, observation: Observation, noise_NK: np.ndarray, greedy: bool, forward: Forward
    ) -> np.ndarray:
        """Returns stored actions [N, ...] for network inputs [N, ...] on any device and uniform noise [N, noise].

        `forward` comes from `initial_recurrent_state` and must be the one for the envs of these observations.
        """
        if isinstance(observation, dict):
            observation = {name: array.to(self._device) for name, array in observation.items()}
        else:
            observation = observation.to(self._device)
        if greedy:
            action = self._algorithm.best_action(forward, observation)
        else:
            noise = self._algorithm.prepare_noise(torch.from_numpy(noise_NK), None).to(self._device)
            action, _ = self._algorithm.act(forward, observation, noise)
        return action.cpu().numpy()

    def initial_recurrent_state(self, width: int) -> RecurrentState:
        """Returns the recurrent state for `width` envs, cleared."""
        return RecurrentState(self._network, recurrent_size_of(self._network), width, self._device)

    @property
    def noise(self) -> int:
        """Number of uniform random numbers that one action needs."""
        return self._algorithm.action_noise(self._network)

    def make_env(self, *, render: bool = False) -> gymnasium.Env[Any, Any]:
        """Returns an env like those of training; `act` takes its observations."""
        if self.source.is_atari:
            from veldt.envs.gymnasium_atari import AtariEnv

            return AtariEnv(self.source.name, self.config.atari)
        return self.source.make(render=render)

    def _encode(self, observation: Any) -> dict[str, np.ndarray]:
        if self.source.is_atari:
            declared = self.spec.observation[""].network_shape
            if np.shape(observation) != declared:
                raise ValueError(
                    f"the observation has shape {np.shape(observation)}, and the policy takes {declared}"
                )
            return {"": np.ascontiguousarray(observation)}
        if self._codec is None:
            env = self.source.make()
            self._codec = ObservationCodec(env.observation_space)
            env.close()
        rows = [np.zeros((1, *field.shape), field.dtype) for field in self.spec.observation.values()]
        self._codec.write(observation, rows, 0)
        return {name: row[0] for name, row in zip(self.spec.observation, rows, strict=True)}
