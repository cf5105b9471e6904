"""Returns of a slot, against the definition step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_envs import VECTOR, SimulatedEnvs

from veldt.replay.returns import slot_returns
from veldt.replay.settings import NStep


@settings(max_examples=80, deadline=None)
@given(
    steps=st.integers(1, 12),
    width=st.integers(1, 3),
    waits=st.booleans(),
    n=st.integers(1, 5),
    terminal_on_life_loss=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_returns_equal_those_computed_step_by_step(
    steps: int, width: int, waits: bool, n: int, terminal_on_life_loss: bool, seed: int
) -> None:
    returns = NStep(n, 0.9, True, terminal_on_life_loss)
    for slot in SimulatedEnvs(VECTOR, steps, width, waits, seed).slots(4):
        found = slot_returns(slot, returns)
        rows = [(t, b) for b in range(width) for t in range(steps) if slot.valid[t, b]]
        assert sorted(found.row_N.tolist()) == sorted(t * width + b for t, b in rows)
        for row, reward, discount, bootstrap in zip(*found, strict=True):
            t, b = divmod(int(row), width)
            total, factor, k = 0.0, 1.0, t
            while k < min(t + n, steps) and slot.valid[k, b]:
                total += factor * float(np.clip(slot.reward[k, b], -1, 1))
                over = slot.terminated[k, b] or (terminal_on_life_loss and slot.life_lost[k, b])
                factor, k = (0.0 if over else 0.9 * factor), k + 1
                if over:
                    break
            np.testing.assert_allclose([reward, discount], [total, factor], rtol=1e-5, atol=1e-6)
            assert bootstrap == k * width + b
