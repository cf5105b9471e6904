"""The learner of a decoupled system: batches from shards, weights to actors (Horgan et al. 2018, algorithm 2)."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch

from veldt.agent import make_network
from veldt.algorithms.base import OffPolicy
from veldt.config import TrainConfig
from veldt.exchange.gradients import OneLearner
from veldt.exchange.pace import Pace
from veldt.exchange.replay import Batch, ReplayClient, ReplayEdge
from veldt.exchange.weights import SharedWeights
from veldt.networks.build import TorsoFactory
from veldt.networks.flat import FlatParameters
from veldt.networks.precision import Network, apply_precision
from veldt.replay.memory import Sample
from veldt.runtime.roles import Control
from veldt.simulators.seeding import REPLAY, derive_seed
from veldt.simulators.spec import SimulatorSpec
from veldt.systems.actor import weights_of
from veldt.systems.experience import to_transitions
from veldt.systems.learner import Learner

_WAIT_S = 0.25
_SAY_S = 0.5  # seconds between messages with figures


@dataclass(frozen=True)
class LearnerPlan:
    """`publish_every` counts updates."""

    config: TrainConfig
    spec: SimulatorSpec
    network: TorsoFactory | None
    publish_every: int


def run_learner(
    control: Control, plan: LearnerPlan, weights: SharedWeights, edge: ReplayEdge, pace: Pace
) -> None:
    """The role: learns until it is told to stop."""
    config = plan.config
    torch.set_num_threads(max(1, config.run.threads))
    device = torch.device(config.run.device)
    algorithm = config.make_algorithm(plan.spec.action)
    assert isinstance(algorithm, OffPolicy) and config.replay is not None

    def made() -> tuple[Network, FlatParameters]:
        network = make_network(config, plan.spec, plan.network)
        return network, apply_precision(network, config.run.precision, device)

    (network, parameters), (target, target_parameters) = made(), made()
    learner = Learner(algorithm, network, parameters, OneLearner(), target_parameters)
    client, arrays = ReplayClient(edge), weights_of(parameters)
    noise = algorithm.update_noise(network)
    weights.publish(0, arrays)
    ordered, sums, said_at = 0, defaultdict[str, float](float), time.monotonic()
    counted = 0
    while not control.stopping:
        control.beat()
        if not pace.may_learn():
            control.sleep(0.002)
            continue
        while client.order(derive_seed(config.run.seed, REPLAY, ordered), 0.0):
            ordered += 1
        batch = client.take(_WAIT_S)
        if batch is None:
            continue
        progress = min(1.0, pace.steps / config.run.steps)
        noise_seed = derive_seed(config.run.seed, REPLAY, learner.updates, 1)
        sample, beta = _sample(batch, plan.spec), config.replay.beta(progress)
        transitions = to_transitions(sample, plan.spec, beta, noise, noise_seed, device)
        targets = algorithm.targets(network, target, transitions)
        rate = algorithm.learning_rate(progress, algorithm.batch)
        loss = learner.update(targets, progress, rate)
        if loss.priority is not None and config.replay.replay == "prioritised":
            client.update(batch, loss.priority.cpu().numpy().astype(np.float64), 0.0)
        pace.updates_L[0] += 1
        if learner.updates % plan.publish_every == 0:
            weights.publish(learner.updates, arrays)
        for name, value in loss.figures.items():
            sums[name] += float(value)
        counted += 1
        if time.monotonic() - said_at > _SAY_S:
            figures = {name: value / counted for name, value in sums.items()}
            lag = learner.updates - float(sample.version_N.mean())
            control.say("figures", updates=learner.updates, lag=lag, learning_rate=rate, figures=figures)
            sums.clear()
            counted, said_at = 0, time.monotonic()


def _sample(batch: Batch, spec: SimulatorSpec) -> Sample:
    """A batch as one memory would have drawn it; see `batch_layouts`."""
    arrays = batch.arrays

    def observation(which: str) -> dict[str, np.ndarray]:
        fields = {name: arrays[f"{which}/{name}"] for name in spec.observation}
        stacked = {name for name, field in spec.observation.items() if field.stack > 1}
        return {
            name: array.transpose(0, 3, 1, 2) if name in stacked else array for name, array in fields.items()
        }

    return Sample(
        observation=observation("observation"),
        next_observation=observation("next_observation"),
        action_N=arrays["action"],
        reward_N=arrays["reward"],
        discount_N=arrays["discount"],
        mass_N=arrays["mass"],
        key_N=arrays["key"],
        version_N=arrays["version"],
    )
