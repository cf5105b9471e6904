"""Learning from a replay buffer: when and how often, importance weights, and the counters in a checkpoint."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from walks import ACTIONS, SPEC, Walk

from veldt.algorithms.c51 import C51, C51Config
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.groups import Targets
from veldt.algorithms.transitions import QLearningBatch
from veldt.exchange.gradients import NoAllReduce
from veldt.learning.batch_sources import BatchShare, ReplaySource
from veldt.learning.replay_batches import BatchConverter, NoiseWidths
from veldt.replay.batch import ReplayBatch, batch_layouts
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.settings import ReplayConfig
from veldt.tracking.stage_clock import StageClock

CPU = torch.device("cpu")


def nothing(observation: Tensor | dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
    """A network with zero outputs."""
    return torch.zeros(len(observation), ACTIONS)


class Learning:
    """A walk, and learning from it. `notes` are the notes to the user."""

    def __init__(
        self, walk: Walk, algorithm: DQN | C51, replay: dict[str, Any] | None = None, noise: int = 0
    ) -> None:
        self.walk, self.notes = walk, list[str]()
        config = ReplayConfig(**{"buffer_size": 1000} | (replay or {}))
        self.batch_source = ReplaySource(
            algorithm,
            partial(algorithm.targets, nothing, Targets(target=nothing)),
            walk.slot,
            ReplayBuffer(SPEC, walk.slot.width, config, algorithm.returns),
            BatchConverter(SPEC, NoiseWidths(noise, 0), CPU),
            BatchShare(algorithm.batch_size, algorithm.learning_starts, seed=1, edge=NoAllReduce()),
            StageClock(),
            self.notes.append,
        )

    def phase(self, progress: float = 0.0) -> list[tuple[QLearningBatch, float]]:
        """Samples, and makes the batches; returns copies, since a batch is valid until the next."""
        return [
            (copy.deepcopy(batch), version)
            for batch, version in self.batch_source.batches(self.walk.phase(), progress)
        ]


def dqn(**settings: Any) -> DQN:
    defaults = {"batch_size": 8, "training_intensity": 4.0, "learning_starts": 8}
    return DQN(DQNConfig(**defaults | settings), SPEC.action)


def in_row(batch: QLearningBatch) -> np.ndarray:
    assert isinstance(batch.observation, Tensor)
    return batch.observation[:, 0].numpy()


@given(
    steps=st.integers(1, 7),
    width=st.integers(1, 5),
    length=st.integers(1, 12),
    n_step=st.integers(1, 4),
    batch=st.integers(1, 40),
    intensity=st.sampled_from([0.25, 1.0, 3.5, 8.0]),
    starts=st.integers(1, 60),
    phases=st.integers(1, 25),
)
@settings(max_examples=40, deadline=None)
def test_updates_follow_from_steps(
    steps: int, width: int, length: int, n_step: int, batch: int, intensity: float, starts: int, phases: int
) -> None:
    """After each phase, the updates are those of the training intensity for the steps since learning could start."""
    algorithm = dqn(batch_size=batch, training_intensity=intensity, learning_starts=starts, n_step=n_step)
    own = Learning(Walk(steps, width, length), algorithm)
    done = 0
    for _ in range(phases):
        # Not copied: there may be hundreds.
        rows = [len(rows.action) for rows, _ in own.batch_source.batches(own.walk.phase(), 0.0)]
        done += len(rows)
        if own.walk.steps > starts and len(own.batch_source.buffer) < batch:
            starts = own.walk.steps
        due = max(Fraction(0), Fraction(own.walk.steps - starts)) * Fraction(intensity) / batch
        assert done == own.batch_source.updates == int(due)
        assert set(rows) <= {batch}
        metrics = own.batch_source.metrics()
        assert metrics["replay/transitions"] == len(own.batch_source.buffer)
        learned = own.walk.steps - starts
        assert metrics["replay/training_intensity"] == pytest.approx(
            done * batch / learned if learned > 0 else 0.0
        )


def test_learning_starts_when_that_many_steps_are_done() -> None:
    own = Learning(Walk(5, 2, length=1000), dqn(learning_starts=30))
    counts = [len(own.phase()) for _ in range(6)]  # of 10 steps, each worth 5 updates
    assert counts == [0, 0, 0, 5, 5, 5]


def test_learning_waits_for_a_batch_and_does_not_catch_up() -> None:
    """The first batch of 40 exists after 40 steps: updates for earlier steps are not made up for."""
    own = Learning(Walk(5, 2, length=1000), dqn(batch_size=40, training_intensity=16.0, learning_starts=1))
    assert [len(own.phase()) for _ in range(6)] == [0, 0, 0, 4, 4, 4]


def test_a_buffer_that_shrinks_below_a_batch_pauses_learning_and_no_longer() -> None:
    """The last observation of an episode takes a row, so that short episodes leave room for fewer transitions."""
    learner = dqn(batch_size=48, training_intensity=48.0, learning_starts=48)
    own = Learning(Walk(10, 4, length=1000), learner, {"buffer_size": 64})
    for phase in range(40):
        own.walk.length = 1 if 20 <= phase < 26 else 1000
        batches = own.phase()
    assert len(batches) == 40
    assert own.batch_source.metrics()["replay/training_intensity"] == pytest.approx(48.0)


def test_the_intensity_is_reached() -> None:
    own = Learning(Walk(3, 2, length=1000), dqn(batch_size=8, training_intensity=0.5, learning_starts=20))
    for _ in range(400):
        own.phase()
    assert own.batch_source.metrics()["replay/training_intensity"] == pytest.approx(0.5, rel=0.01)


def test_batches_hold_steps_of_the_envs_and_their_mean_version() -> None:
    own = Learning(Walk(5, 2, length=4), dqn())
    versions = set()
    for _ in range(20):
        for batch, version in own.phase():
            phases = [own.walk.numbers[number] for number in in_row(batch).tolist()]
            assert version == pytest.approx(np.mean(phases))
            versions |= set(phases)
    assert versions == set(range(20))


def test_the_slot_is_stored_before_it_is_learned_from() -> None:
    own = Learning(Walk(20, 1, length=1000), dqn(learning_starts=8, batch_size=8, training_intensity=64.0))
    rows = np.concatenate([in_row(batch) for batch, _ in own.phase()])
    assert set(rows.tolist()) == own.walk.numbers.keys()


def test_importance_weights_correct_the_more_the_further_the_run_is() -> None:
    """β goes along a line from one setting to the other; (P S)^-β over the batch's largest (Schaul et al. 2016)."""
    replay = {
        "replay": "prioritised",
        "priority_exponent": 0.5,
        "importance_exponent": 0.25,
        "importance_exponent_end": 0.75,
    }
    own = Learning(Walk(5, 2, length=1000), dqn(learning_starts=9), replay)
    known: dict[float, float] = {}
    for phase in range(12):
        progress = phase / 11
        steps = own.walk.phase()
        for number in list(own.walk.numbers)[-10:]:
            known[number] = max(known.values(), default=1.0)
        for batch, _ in own.batch_source.batches(steps, progress):
            priority = np.array([known[number] for number in in_row(batch)])
            beta = 0.25 + 0.5 * progress
            assert own.batch_source.metrics()["replay/beta"] == pytest.approx(beta)
            np.testing.assert_allclose(batch.weight, (priority / priority.min()) ** (-0.5 * beta), rtol=1e-4)
            errors = 0.1 + in_row(batch) % 7
            own.batch_source.update_priorities(torch.from_numpy(errors))
            known.update(zip(in_row(batch).tolist(), errors.tolist(), strict=True))
    assert own.batch_source.metrics()["replay/dropped_priorities"] == 0.0


def share_of(number: float, own: Learning) -> float:
    """How often the step with that observation is drawn now."""
    batch = ReplayBatch.allocate(batch_layouts(SPEC, 20))
    shares = []
    for seed in range(100):
        own.batch_source.buffer.sample(batch, seed)
        shares.append(np.mean(batch.observation[""] == number))
    return float(np.mean(shares))


def test_priorities_go_to_the_rows_that_were_drawn() -> None:
    own = Learning(Walk(10, 2, length=1000), dqn(training_intensity=64.0), {"replay": "prioritised"})
    for batch, _ in own.batch_source.batches(own.walk.phase(), 0.0):
        own.batch_source.update_priorities(torch.from_numpy(np.where(in_row(batch) == 8.0, 1e6, 0.0)))
    assert share_of(8.0, own) > 0.99


def test_uniform_samples_have_no_priorities_and_no_weights() -> None:
    own = Learning(Walk(10, 2, length=1000), dqn(training_intensity=64.0))
    for batch, _ in own.batch_source.batches(own.walk.phase(), 0.5):
        assert torch.equal(batch.weight, torch.ones(8))
        own.batch_source.update_priorities(torch.from_numpy(np.where(in_row(batch) == 8.0, 1e6, 0.0)))
    assert share_of(8.0, own) == pytest.approx(1 / 20, abs=0.03)
    assert "replay/beta" not in own.batch_source.metrics()


def test_learning_pauses_while_a_buffer_is_filled_again_and_does_not_catch_up() -> None:
    before = Learning(Walk(5, 2, length=1000), dqn(learning_starts=30))
    for _ in range(6):
        before.phase()
    assert before.batch_source.updates == 15
    again = Learning(before.walk, dqn(learning_starts=30))
    again.batch_source.load(before.batch_source.counters())
    assert again.batch_source.refill(60) == 30
    assert again.batch_source.metrics()["replay/training_intensity"] == 0.0
    assert [len(again.phase()) for _ in range(6)] == [0, 0, 0, 5, 5, 5]
    assert again.batch_source.updates == 30
    assert again.batch_source.metrics()["replay/training_intensity"] == pytest.approx(4.0)
    # And a run that is stopped again goes on from there.
    third = Learning(before.walk, dqn(learning_starts=30))
    third.batch_source.load(again.batch_source.counters())
    assert third.batch_source.refill(120) == 30
    assert [len(third.phase()) for _ in range(4)] == [0, 0, 0, 5]


@pytest.mark.parametrize("intensity", [4.0, 0.3])
def test_counters_are_all_there_is_besides_the_buffer(intensity: float) -> None:
    """The next batches are the same, also in the middle of what one update needs, and after a pause of learning."""

    def make() -> Learning:
        return Learning(Walk(5, 2, length=7, seed=3), dqn(training_intensity=intensity, noisy=True), noise=6)

    one, other = make(), make()
    for phase in range(9):
        one.phase()
        if phase == 5:
            one.batch_source.refill(one.walk.steps)
        other.walk.phase()
        other.batch_source.buffer.append(other.walk.slot)
    other.batch_source.load(json.loads(json.dumps(one.batch_source.counters())))
    compared = 0
    for _ in range(9):
        pairs = list(zip(one.phase(0.5), other.phase(0.5), strict=True))
        compared += len(pairs)
        for (batch, version), (same, same_version) in pairs:
            assert version == same_version
            for name in ("observation", "action", "target", "weight", "noise"):
                assert torch.equal(getattr(batch, name), getattr(same, name)), name
        assert one.batch_source.metrics() == other.batch_source.metrics()
    assert compared > 0


def test_every_update_draws_rows_and_noise_of_its_own() -> None:
    own = Learning(Walk(50, 2, length=1000), dqn(noisy=True, learning_starts=20), noise=6)
    batches = [batch for batch, _ in own.phase()]
    assert len(batches) == 40
    assert len({in_row(batch).tobytes() for batch in batches}) == 40
    assert len({batch.noise.numpy().tobytes() for batch in batches}) == 40
    noise = torch.cat([batch.noise for batch in batches])
    assert noise.shape == (40, 6)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.15)


def c51(clip_rewards: bool) -> C51:
    """It has not begun to learn."""
    return C51(C51Config(atoms=3, value_min=-2.0, value_max=0.5, clip_rewards=clip_rewards), SPEC.action)


def outside(own: Learning) -> float:
    return own.batch_source.metrics()["replay/rewards_outside_atoms"]


def test_rewards_outside_of_the_atoms_range_are_counted_with_one_warning() -> None:
    own = Learning(Walk(5, 2, length=2), c51(clip_rewards=False))
    own.phase()
    assert outside(own) == 0.0 and not own.notes
    own.walk.reward = -3.0
    steps = own.walk.steps
    own.phase()
    lived = own.walk.steps - steps
    assert 0 < lived < 10  # resets earn nothing, and are not counted
    assert outside(own) == lived
    assert len(own.notes) == 1
    assert f"{lived} of the last {lived} rewards lie outside the atoms' range, -2 to 0.5" in own.notes[0]
    own.phase()
    assert outside(own) == own.walk.steps - steps
    own.walk.reward = 0.5
    own.phase()
    assert outside(own) == lived * 2
    assert len(own.notes) == 1
    # Nor is it told again after a resume.
    again = Learning(own.walk, c51(clip_rewards=False))
    again.batch_source.load(own.batch_source.counters())
    own.walk.reward = 1.0
    again.phase()
    assert outside(again) > outside(own) and not again.notes


def test_the_range_of_atoms_is_compared_with_clipped_rewards() -> None:
    own = Learning(Walk(5, 2, length=1000), c51(clip_rewards=True))
    own.walk.reward = -100.0  # clipped to -1, which is inside
    own.phase()
    assert outside(own) == 0.0 and not own.notes
    own.walk.reward = 100.0  # clipped to 1, which is not
    own.phase()
    assert outside(own) == 10.0 and len(own.notes) == 1


def test_scalar_values_have_no_range() -> None:
    own = Learning(Walk(5, 2), dqn())
    own.walk.reward = 1e9
    own.phase()
    assert "replay/rewards_outside_atoms" not in own.batch_source.metrics()
    assert not own.notes
