"""The training queue: a trainer takes all rollouts that are there, or one of them, in order, and waits for enough."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch

from veldt.envs.arrangement import probe_spec
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.exchange.queue_stats import QueueStats
from veldt.exchange.slots import ReceivedSlot
from veldt.sampling.unrolls import unroll_layouts
from veldt.systems.ga3c.rollout_queue import RolloutQueue

STEPS = 3


class Queue:
    """Rollouts that are in the queue, and those that arrive while a trainer waits."""

    def __init__(self) -> None:
        self.there, self.coming = deque[ReceivedSlot](), deque[ReceivedSlot]()
        self.released: list[int] = []

    def take(self, deadline_s: float) -> ReceivedSlot | None:
        if not self.there and deadline_s and self.coming:
            self.there.append(self.coming.popleft())
        return self.there.popleft() if self.there else None

    def release(self, ring: int) -> None:
        self.released.append(ring)

    def wait(self, seconds: float) -> None:
        raise AssertionError


SPEC = probe_spec(resolve("CartPole-v1"), AtariConfig())


def rollout(number: int) -> ReceivedSlot:
    layouts = unroll_layouts(SPEC, STEPS, 1, 2, 0)
    arrays = {name: np.zeros(layout.shape, layout.dtype) for name, layout in layouts.items()}
    arrays["reward"][:] = number
    return ReceivedSlot(number, arrays)


def test_a_trainer_takes_all_that_is_there_and_waits_for_enough() -> None:
    queue = Queue()
    intake = RolloutQueue(queue, SPEC, 2, torch.device("cpu"))
    assert intake.take(0.1) is None
    queue.there.extend(map(rollout, range(3)))
    first = intake.take(0.1)
    assert first is not None and first.rows.reward[0].tolist() == [0, 1, 2] and queue.released == [0, 1, 2]
    assert intake.stats == QueueStats(items=3, batches=1, waiting=3)
    queue.there.append(rollout(3))
    assert intake.take(0.0) is None and queue.released == [0, 1, 2], "too few yet"
    queue.coming.append(rollout(4))
    second = intake.take(0.1)
    assert second is not None and second.rows.reward[0].tolist() == [3, 4] and queue.released[3:] == [3, 4]
    assert intake.stats - QueueStats(3, 1, 3) == QueueStats(items=2, batches=1, waiting=1), (
        "one had to be awaited"
    )


def test_ungrouped_a_trainer_takes_one_rollout_the_oldest() -> None:
    queue = Queue()
    intake = RolloutQueue(queue, SPEC, 1, torch.device("cpu"), most=1)
    queue.there.extend(map(rollout, range(3)))
    for number in range(3):
        taken = intake.take(0.0)
        assert taken is not None and taken.rows.reward[0].tolist() == [number]
        assert queue.released == list(range(number + 1)), (
            "the others' slots stay full, so that agents still wait"
        )
    assert intake.take(0.0) is None
    assert intake.stats == QueueStats(items=3, batches=3, waiting=3 + 2 + 1)
