"""Unrolls of several actors side by side equal the steps of each actor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import STEP_FLAGS
from veldt.sampling.observations import slot_observations
from veldt.sampling.unrolls import RUNNING_RETURN, Unrolls, unroll_layouts

WIDTH, PARAMETERS, RECURRENT_SIZE = 2, 3, 4


@pytest.mark.parametrize(("env", "steps"), [("CartPole-v1", 30), ("ALE/Pong-v5", 6)])
def test_columns_of_a_batch_are_the_actors_slots(env: str, steps: int) -> None:
    source, atari = resolve(env), AtariConfig(max_episode_steps=4)
    spec = probe_spec(source, atari)
    rng = np.random.default_rng(0)
    layouts = unroll_layouts(spec, steps, 3 * WIDTH, PARAMETERS, RECURRENT_SIZE, with_returns=True)
    batch = Unrolls.allocate(spec, layouts, torch.device("cpu"))
    expected, wanted = [], []
    for number in range(3):
        simulation = EnvConfig(num_envs=WIDTH, env_backend="in-process")
        envs = make_vector_envs(
            StepperSettings(source, number, simulation, atari),
            spec,
            steps,
            Arrangement("in-process", 0, 1, (), ""),
            stacks=True,
        )
        slot = envs.trajectory
        envs.start()
        observations = slot_observations(slot, torch.device("cpu"))
        for _ in range(2):  # the second begins in the middle of episodes
            slot.action[:] = spec.action.sample(rng, steps * WIDTH).reshape(slot.action.shape)
            rows = []
            for t in range(steps):
                rows.append(observations.row(t, slice(0, WIDTH)).clone())
                envs.step(0, t)
                envs.wait(0, t)
            rows.append(observations.last().clone())
            arrays = {
                "policy": rng.random((steps, WIDTH, PARAMETERS), np.float32),
                "initial_recurrent_state": rng.random((WIDTH, RECURRENT_SIZE), np.float32),
                RUNNING_RETURN: rng.random((steps, WIDTH)),
            }
            full = arrays | {
                name: np.empty(layout.shape, layout.dtype)
                for name, layout in unroll_layouts(spec, steps, WIDTH, 0, 0).items()
                if name != "policy"
            }
            slot.copy_to(full)
            batch.put(number * WIDTH, full)
            flags = {name: getattr(slot, name).copy() for name in (*STEP_FLAGS, "action", "reward")}
            begins = slot.episode_step == 0
            envs.start_next_rollout()
        envs.close()
        expected.append(torch.stack(rows))
        wanted.append((flags, arrays, begins))
    rollout = batch.rollout()
    observed_SBx = torch.cat(expected, 1)
    assert torch.equal(rollout.observations.rows(None), observed_SBx[:-1].flatten(0, 1))
    assert torch.equal(rollout.observations.last(), observed_SBx[-1])
    # In any order; also where first and last are as far apart as there are rows between.
    for some in ([0, 5, 3 * WIDTH * steps - 1], [3, 30, 7, 6], rng.permutation(3 * WIDTH * steps)):
        row_N = torch.as_tensor(some)
        assert torch.equal(rollout.observations.rows(row_N), observed_SBx[:-1].flatten(0, 1)[row_N])
    assert rollout.recurrent is not None and rollout.extras.keys() == {"policy"}
    for number, (flags, arrays, begins) in enumerate(wanted):
        part = slice(number * WIDTH, (number + 1) * WIDTH)
        for name, array in flags.items():
            assert np.array_equal(getattr(rollout, name)[:, part].numpy(), array), name
        assert np.array_equal(rollout.extras["policy"][:, part].numpy(), arrays["policy"])
        assert np.array_equal(batch.running_return[:, part], arrays[RUNNING_RETURN])
        assert np.array_equal(rollout.recurrent.first_BM[part].numpy(), arrays["initial_recurrent_state"])
        assert np.array_equal(rollout.recurrent.begins_SB[:, part].numpy(), begins)
    assert any(flags["truncated"].any() or flags["terminated"].any() for flags, _, _ in wanted)
