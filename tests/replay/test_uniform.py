"""Uniform sampling: every sampleable row with the same probability, no other, and the same by the same seed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rings import chi_square, positions, ring_of

from veldt.replay.sampling_strategy import Uniform

LIFE = [True, True, False, True] * 4


def test_every_sampleable_row_has_the_same_probability() -> None:
    """Envs have different numbers of steps, and one has wrapped its ring."""
    ring = ring_of([LIFE * 2, LIFE[:5], [], [False, True, True]], share=11, steps=2)
    index = Uniform(ring)
    drawn, mass = index.sample(40_000, 7)
    wanted = positions(ring)
    assert len(wanted) == ring.sampleable == 12
    assert abs(chi_square(drawn, dict.fromkeys(wanted, 1 / len(wanted)))) < 4
    assert (mass == 1).all() and index.mass == len(wanted)


def test_samples_depend_on_the_seed_alone() -> None:
    index = Uniform(ring_of([LIFE, LIFE], share=16))
    first, _ = index.sample(100, 2**64 - 1)
    again, _ = index.sample(100, 2**64 - 1)
    other, _ = index.sample(100, 2**64 - 2)
    assert first.tolist() == again.tolist() != other.tolist()


@settings(max_examples=60, deadline=None)
@given(
    valid=st.lists(st.lists(st.booleans(), max_size=40), min_size=1, max_size=4),
    share=st.integers(1, 20),
    steps=st.integers(1, 4),
)
def test_only_sampleable_rows_are_drawn(valid: list[list[bool]], share: int, steps: int) -> None:
    ring = ring_of(valid, share, steps)
    wanted = positions(ring)
    assert ring.between(ring.first, ring.end).tolist() == wanted
    if wanted:
        drawn, _ = Uniform(ring).sample(200, 1)
        assert set(drawn.tolist()) <= set(wanted)
