"""A pool of threads that do the same work, some of which are parked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

_POLL_S = 0.25  # seconds between a parked thread's checks whether to end


class WorkerPool:
    """`most` threads; those that are active call `turn` again and again, and the others wait.

    Each thread sets the number of torch's threads to that of the thread that makes the pool: otherwise torch would
    split the smallest operations over all cores, and wait for them.

    A turn has to end within a moment, whether there was work or not. An exception in it ends the thread, and `check`
    raises it in the pool's owner.
    """

    def __init__(self, name: str, most: int, working: int, turn: Callable[[], None]) -> None:
        self._turn, self._num_active, self._stopping = turn, working, False
        self._torch_threads = torch.get_num_threads()
        self._changed = threading.Condition()
        self._turns, self._seen = [0] * most, [0] * most
        self._error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"{name} {number}", daemon=True)
            for number in range(most)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def activate(self, count: int) -> None:
        """Lets the first `count` threads work, and the others wait."""
        with self._changed:
            self._num_active = count
            self._changed.notify_all()

    def check(self) -> bool:
        """Whether every thread has made progress since the last such call. Raises the exception that ended a thread."""
        if self._error is not None:
            raise self._error
        turns = list(self._turns)
        if any(now == before for now, before in zip(turns, self._seen, strict=True)):
            return False
        self._seen = turns
        return True

    def stop(self, patience_s: float) -> None:
        """Asks all threads to end after their turns, and waits for them."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(patience_s)

    def _run(self, number: int) -> None:
        try:
            torch.set_num_threads(self._torch_threads)
            while not self._stopping:
                self._turns[number] += 1
                if number < self._num_active:
                    self._turn()
                else:
                    with self._changed:
                        self._changed.wait_for(lambda: number < self._num_active or self._stopping, _POLL_S)
        except BaseException as error:
            self._error = error
