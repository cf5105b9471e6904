"""Roles that neither act nor learn, at the ends of a replay buffer or a parameter server: they show what it can do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from veldt.algorithms.base import Loss
from veldt.config.gorila_settings import GorilaConfig
from veldt.exchange.rate_limiter import RateLimiter
from veldt.exchange.replay import ReplayEnds
from veldt.exchange.slots import Slots
from veldt.exchange.weights import Weights
from veldt.networks.flat import FlatParameters
from veldt.runtime.roles import Control
from veldt.systems.gorila.server_optimiser import ServerOptimiser
from veldt.systems.roles.actor import ActorPlan
from veldt.systems.roles.independent_learner import IndependentPlan
from veldt.systems.roles.learner import LearnerPlan


def add(control: Control, plan: ActorPlan, weights: Weights, slots: Slots, rate_limiter: RateLimiter) -> None:
    """In the place of an actor."""
    out, rng = slots.producer(plan.ring), np.random.default_rng(plan.number)
    template: dict[str, np.ndarray] = {}
    while not control.stopping:
        control.heartbeat()
        arrays = out.slot(0.1)
        if arrays is None:
            continue
        if not template:
            template = {name: np.zeros_like(array) for name, array in arrays.items()}
            template["flags"][:, -1] = True  # valid
            template["episode_step"][...] = 100
            template["priority"][...] = rng.random(template["priority"].shape)
            for name, array in template.items():
                if name.startswith("observation"):
                    array[...] = rng.integers(0, 256, array.shape)
        for name, array in template.items():
            np.copyto(arrays[name], array)
        out.commit()
        rate_limiter.steps_A[plan.number] += template["reward"].size


def draw(
    control: Control, plan: LearnerPlan, weights: Weights, replay: ReplayEnds, rate_limiter: RateLimiter
) -> None:
    """In the place of the learner."""
    client, rng, ordered = replay.client(), np.random.default_rng(0), 0
    while not control.stopping:
        control.heartbeat()
        while client.rows and client.request(ordered, 0.0):
            ordered += 1
        batch = client.take(0.1)
        if batch is not None:
            client.give_back(rng.random(len(batch)))
            rate_limiter.updates_L[0] += 1


def push(
    control: Control,
    plan: IndependentPlan,
    rate_limiter: RateLimiter,
    gradients: Sequence[Slots],
    parts: Sequence[Weights],
) -> None:
    """In the place of a learner: a gradient, again and again."""
    torch.set_num_threads(1)
    settings = plan.run_plan.config.roles
    assert isinstance(settings, GorilaConfig)
    parameters: FlatParameters = plan.run_plan.network()[1]
    groups = plan.run_plan.algorithm().groups
    optimiser = ServerOptimiser(parameters, groups, gradients, parts, settings, control, plan.rank)
    optimiser.begin()
    loss = Loss(torch.tensor(1.0), {"train/grad_norm": torch.tensor(1.0)})
    parameters.gradient.normal_(std=1e-3)
    while not control.stopping:
        control.heartbeat()
        optimiser.apply(parameters.gradient, dict.fromkeys((group.name for group in groups), 1e-3), loss)
