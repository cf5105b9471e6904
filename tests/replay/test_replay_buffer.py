"""The buffer as a whole: keys of what was overwritten, priorities that come with rows, sizes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from all_transitions import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_envs import FOUR_FRAMES, SPECS, VECTOR, SimulatedEnvs

from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.errors import UsageError, VeldtError
from veldt.replay import size
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.sampling_strategy import Prioritised
from veldt.replay.settings import NStep, ReplayConfig
from veldt.replay.size import replay_bytes
from veldt.runtime.system_memory import _left_by_groups

ONE, THREE = NStep(1, 0.99, False, False), NStep(3, 0.99, True, True)
ATARI = EnvSpec({"": ArraySpec((104, 80), "uint8", 4)}, ActionSpec("discrete", sizes=(18,), start=(0,)))


def prioritised(buffer_size: int, alpha: float = 1.0) -> ReplayConfig:
    return ReplayConfig(buffer_size=buffer_size, replay="prioritised", priority_exponent=alpha)


def leaves(replay: ReplayBuffer) -> np.ndarray:
    assert isinstance(replay.index, Prioritised)
    return replay.index.tree.leaves


def check_leaves(replay: ReplayBuffer) -> None:
    """Exactly the sampleable rows can be drawn."""
    ring = replay.ring
    assert np.flatnonzero(leaves(replay)).tolist() == sorted(ring.between(ring.first, ring.end).tolist())


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 20),
    width=st.integers(1, 3),
    share=st.integers(3, 15),
    returns=st.sampled_from([ONE, THREE]),
    waits=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_priorities_of_overwritten_rows_are_dropped_and_counted(
    steps: int, width: int, share: int, returns: NStep, waits: bool, seed: int
) -> None:
    """Each step's priority is made its own number, while the ring wraps; late updates must change no newer row's."""
    envs = SimulatedEnvs(VECTOR, steps, width, waits, seed)
    replay = ReplayBuffer(VECTOR, width, prioritised(share * width), returns)
    samples, dropped, updated = [], 0, {}
    for slot in envs.slots(8):
        replay.append(slot)
        check_leaves(replay)
        if not len(replay):
            continue
        samples.append(sampled(replay, VECTOR, min(6, len(replay)), seed))
        late = samples[max(0, len(samples) - 3)]
        present = replay.ring.between(replay.ring.first, replay.ring.end)
        kept = set(replay.ring.version.reshape(-1)[present].tolist())
        replay.update(late.key_N, late.version_N + 1.0)
        dropped += sum(number not in kept for number in late.version_N.tolist())
        assert replay.dropped == dropped
        updated |= {number: number + 1.0 for number in late.version_N.tolist() if number in kept}
        for position in present.tolist():
            number = int(replay.ring.version.reshape(-1)[position])
            if number in updated:
                assert leaves(replay)[position] == pytest.approx(updated[number], rel=1e-5)
    assert len({key for sample in samples for key in sample.key_N.tolist()}) == len(
        {number for sample in samples for number in sample.version_N.tolist()}
    )


@pytest.mark.parametrize("returns", [ONE, THREE])
def test_priorities_that_come_with_rows_wait_until_these_are_sampleable(returns: NStep) -> None:
    """Also if other slots have no priorities; the largest priority so far does not grow before."""
    envs = SimulatedEnvs(VECTOR, 2, 2, False, 3)
    replay = ReplayBuffer(VECTOR, 2, prioritised(100), returns)
    given_at = {}
    for phase, slot in enumerate(envs.slots(30)):
        brings = phase % 3 != 0
        priority_TB = np.where(slot.valid, 1.0 / (2.0 + slot.version), np.nan)
        replay.append(slot, priority_TB if brings else None)
        check_leaves(replay)
        for number in slot.version[slot.valid].tolist():
            given_at[number] = 1.0 / (2.0 + number) if brings else 1.0
    present = replay.ring.between(replay.ring.first, replay.ring.end)
    wanted = [given_at[number] for number in replay.ring.version.reshape(-1)[present].tolist()]
    np.testing.assert_allclose(leaves(replay)[present], np.array(wanted) + 1e-6, rtol=1e-5)


def test_no_transition_crosses_a_parted_episode() -> None:
    """The next slot's episode step would fit the newest episode, but returns do not cross the gap."""
    joined, parted = (ReplayBuffer(VECTOR, 2, prioritised(100), THREE) for _ in range(2))
    times = 0
    for slot in SimulatedEnvs(VECTOR, 2, 2, False, 3).slots(40):
        ring = joined.ring
        last = np.arange(2), ring.head % ring.rows
        before = parted.ring.head - ring.head
        goes_on_B = ring.open & (slot.episode_step[0] == ring.episode_step[last])
        last = np.arange(2), parted.ring.head % ring.rows
        if is_parted := bool(times < 3 and goes_on_B.all()):
            parted.ring.part()
            times += 1
        for replay in (joined, parted):
            replay.append(slot)
            check_leaves(replay)
        assert not is_parted or not parted.ring.valid[last].any()
        assert (parted.ring.head - ring.head == before + is_parted).all(), "a row is left alone, once"
    assert times == 3


def test_invalid_first_priorities_are_refused() -> None:
    (slot,) = SimulatedEnvs(VECTOR, 3, 1, False, 0).slots(1)
    with pytest.raises(VeldtError, match="training has diverged"):
        ReplayBuffer(VECTOR, 1, prioritised(10), ONE).append(slot, np.full((3, 1), np.nan))


def test_with_a_uniform_index_priorities_change_nothing() -> None:
    envs = SimulatedEnvs(FOUR_FRAMES, 9, 2, False, 1)
    replay = ReplayBuffer(FOUR_FRAMES, 2, ReplayConfig(buffer_size=20), THREE)
    for slot in envs.slots(3):
        replay.append(slot)
    before = sampled(replay, FOUR_FRAMES, 8, 5)
    replay.update(before.key_N, np.ones(8))
    after = sampled(replay, FOUR_FRAMES, 8, 5)
    assert before.key_N.tolist() == after.key_N.tolist() and replay.dropped == 0


@pytest.mark.parametrize("config", [ReplayConfig(buffer_size=40), prioritised(40, 0.6)])
@pytest.mark.parametrize("spec", SPECS)
def test_compressed_frames_make_the_same_samples(spec: EnvSpec, config: ReplayConfig) -> None:
    packed = ReplayConfig(**vars(config) | {"compress_frames": True})
    plain, compressed = (ReplayBuffer(spec, 2, kind, THREE) for kind in (config, packed))
    for seed, slot in enumerate(SimulatedEnvs(spec, 6, 2, False, 8).slots(12)):
        plain.append(slot)
        compressed.append(slot)
        count = min(10, len(plain))
        one, other = sampled(plain, spec, count, seed), sampled(compressed, spec, count, seed)
        assert one.key_N.tolist() == other.key_N.tolist()
        for name in spec.observation:
            np.testing.assert_array_equal(one.observation[name], other.observation[name])
            np.testing.assert_array_equal(one.next_observation[name], other.next_observation[name])


def test_shards_fill_their_parts_of_a_batch_and_nothing_else() -> None:
    replay = ReplayBuffer(FOUR_FRAMES, 1, ReplayConfig(buffer_size=50), ONE)
    for slot in SimulatedEnvs(FOUR_FRAMES, 30, 1, False, 2).slots(2):
        replay.append(slot)
    whole = ReplayBatch.allocate(batch_layouts(FOUR_FRAMES, 9))
    for array in whole.arrays.values():
        array[...] = 0
    replay.sample(whole.part(slice(2, 7)), 1)
    alone = sampled(replay, FOUR_FRAMES, 5, 1)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array[2:7], alone.arrays[name])
        assert not array[:2].any() and not array[7:].any()
    assert replay.capacity == 50


@pytest.mark.parametrize(
    ("buffer_size", "width", "returns", "message"),
    [
        (3, 4, ONE, "--buffer-size is 3: it must be at least 1 for each of the 4 envs"),
        (8, 4, THREE, "--buffer-size is 8, 2 for each of .* more than 8 for returns over 3 steps"),
    ],
)
def test_impossible_sizes_are_refused(buffer_size: int, width: int, returns: NStep, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ReplayBuffer(VECTOR, width, ReplayConfig(buffer_size=buffer_size), returns)
    ReplayBuffer(VECTOR, width, ReplayConfig(buffer_size=9), returns)


@pytest.mark.parametrize(
    ("name", "value"),
    [("buffer_size", 0), ("priority_exponent", 1.5), ("importance_exponent", -0.1), ("replay", "sorted")],
)
def test_impossible_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is "):
        ReplayConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [ReplayConfig(), ReplayConfig(replay="prioritised")])
def test_a_million_atari_transitions_take_little_more_than_their_single_frames(config: ReplayConfig) -> None:
    frames = 1_000_000 * 104 * 80
    assert frames < replay_bytes(ATARI, 16, config, THREE) < 1.05 * frames


@pytest.mark.parametrize("spec", SPECS)
def test_the_memory_taken_is_the_memory_computed(spec: EnvSpec) -> None:
    config = prioritised(300)
    replay = ReplayBuffer(spec, 3, config, THREE)
    ring = replay.ring
    stores = [store.array for store in ring.observation.values()]  # type: ignore[attr-defined]
    fields = [ring.action, ring.reward, ring.episode_step, ring.version, ring.terminated, ring.truncated]
    taken = sum(array.nbytes for array in [*stores, *fields, ring.life_lost, ring.valid])
    assert taken + replay.index.tree._nodes.nbytes == replay_bytes(spec, 3, config, THREE)  # type: ignore[union-attr]


def test_more_memory_than_there_is_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 2**30)
    with pytest.raises(
        UsageError, match=r"1,000,000 and needs 7\.\d GiB of memory, 1\.0 GiB are available: 1\d0,000"
    ):
        ReplayBuffer(ATARI, 16, ReplayConfig(), THREE)
    fits = ReplayConfig(buffer_size=120_000)
    assert replay_bytes(ATARI, 16, fits, THREE) < 2**30
    # Compressed, all that is sure is that each frame is an object.
    ReplayBuffer(FOUR_FRAMES, 1, ReplayConfig(buffer_size=100, compress_frames=True), ONE)
    with pytest.raises(UsageError, match=r"1,000,000,000,000 and needs .* GiB of memory"):
        ReplayBuffer(ATARI, 16, ReplayConfig(buffer_size=10**12, compress_frames=True), THREE)
    monkeypatch.setattr(size, "available_memory", lambda: 10)
    with pytest.raises(UsageError, match="available: 0 would fit"):
        ReplayBuffer(VECTOR, 1, ReplayConfig(buffer_size=100), ONE)


def test_the_limit_of_a_control_group_counts(tmp_path: Path) -> None:
    """The group's own limit or that of a group around it, plus the memory of cached files that can be freed."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder, limit in ((tmp_path / "a", "1000"), (tmp_path / "a" / "b", "max")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("700\n")
        (folder / "memory.stat").write_text("anon 500\nactive_file 30\ninactive_file 20\n")
    (tmp_path / "membership").write_text("1:cpu:/\n0::/a/b\n")
    assert _left_by_groups(tmp_path / "membership", tmp_path) == [350]
    assert _left_by_groups(tmp_path / "missing", tmp_path) == []
