"""Observations on an accelerator are those on the CPU, though each frame is copied there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from imitation import recorded

from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.in_process import VectorEnvs
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.spec import EnvSpec
from veldt.envs.stepper_settings import StepperSettings
from veldt.sampling.observations import slot_observations
from veldt.sampling.unrolls import Unrolls, unroll_layouts

WIDTH = 2
CPU = torch.device("cpu")


@contextmanager
def playing(env: str, steps: int) -> Iterator[tuple[EnvSpec, VectorEnvs]]:
    source, atari = resolve(env), AtariConfig(max_episode_steps=5)
    spec = probe_spec(source, atari)
    settings = StepperSettings(source, 3, EnvConfig(num_envs=WIDTH, env_backend="in-process"), atari)
    envs = make_vector_envs(settings, spec, steps, Arrangement("in-process", 0, 1, (), ""), stacks=True)
    try:
        envs.start()
        yield spec, envs
    finally:
        envs.close()


@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5"])
@pytest.mark.parametrize("steps", [2, 7])  # fewer than there are frames in a stack, and more
def test_rows_of_several_rollouts(env: str, steps: int, device: torch.device) -> None:
    rng, everyone = np.random.default_rng(0), slice(0, WIDTH)
    with playing(env, steps) as (spec, envs):
        slot = envs.trajectory
        here, there = (slot_observations(slot, each) for each in (CPU, device))
        for _ in range(4):
            slot.action[:] = spec.action.sample(rng, steps * WIDTH).reshape(slot.action.shape)
            for t in range(steps):
                assert torch.equal(here.row(t, everyone), there.row(t, everyone).cpu())
                envs.step(0, t)
                envs.wait(0, t)
            assert torch.equal(here.last(), there.last().cpu())
            index = torch.from_numpy(rng.permutation(steps * WIDTH))
            assert torch.equal(here.rows(index), there.rows(index.to(device)).cpu())
            assert torch.equal(here.rows(None), there.rows(None).cpu())
            envs.start_next_rollout()
            for each in (here, there):
                each.start_next_rollout()


def test_the_last_observation_is_not_written_to_the_others(device: torch.device) -> None:
    """A loss that has used views of the others needs them for its gradient."""
    with playing("CartPole-v1", 3) as (_, envs):
        there = slot_observations(envs.trajectory, device)
        rows = there.rows(None)
        weight = torch.ones(4, 1, device=device, requires_grad=True)
        loss = (rows @ weight).sum()
        there.last()
        loss.backward()


@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5"])
def test_unrolls_wait_for_nothing(env: str, device: torch.device) -> None:
    with playing(env, 3) as (spec, envs):
        layouts = unroll_layouts(spec, 3, WIDTH, 2, 0)
        slot = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}
        for t in range(3):
            envs.step(0, t)
            envs.wait(0, t)
        envs.trajectory.copy_to(slot)
    batches = [Unrolls.allocate(spec, layouts, each) for each in (CPU, device)]
    for batch in batches:
        batch.put(0, slot)
    here = batches[0].rollout().observations
    with recorded() as traffic:
        there = batches[1].rollout().observations
        uploads = len(traffic.uploads)
        rows, last = there.rows(None), there.last()
    assert not traffic.synchronisations
    assert len(traffic.uploads) == uploads, "a loss copies nothing more"
    assert torch.equal(here.rows(None), rows.cpu()) and torch.equal(here.last(), last.cpu())
