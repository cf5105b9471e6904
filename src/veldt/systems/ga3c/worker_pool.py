"""Threads that do the same, of which some are parked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

_LOOK_S = 0.25  # seconds between a parked thread's looks whether it is to end


class WorkerPool:
    """`most` threads that call `turn` again and again; the first `num_active` of them do, and the others wait.

    Each computes with as many of torch's threads as the one that makes the crew does: a thread that were not told so
    would share the smallest of operations out among all cores, and wait for them.

    A turn has to end within a moment, whether there was work or not. What it raises ends the thread, and is raised by
    `check` in whoever owns the crew.
    """

    def __init__(self, name: str, most: int, working: int, turn: Callable[[], None]) -> None:
        self._turn, self._working, self._stopping = turn, working, False
        self._computing = torch.get_num_threads()
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

    @property
    def num_active(self) -> int:
        return self._working

    @num_active.setter
    def num_active(self, count: int) -> None:
        with self._changed:
            self._working = count
            self._changed.notify_all()

    def check(self) -> bool:
        """Whether every thread has gone on since this last said so. Raises what ended a thread."""
        if self._error is not None:
            raise self._error
        turns = list(self._turns)
        if any(now == before for now, before in zip(turns, self._seen, strict=True)):
            return False
        self._seen = turns
        return True

    def stop(self, patience_s: float) -> None:
        """Lets all threads end their turns, and waits for that."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(patience_s)

    def _run(self, number: int) -> None:
        try:
            torch.set_num_threads(self._computing)
            while not self._stopping:
                self._turns[number] += 1
                if number < self._working:
                    self._turn()
                else:
                    with self._changed:
                        self._changed.wait_for(lambda: number < self._working or self._stopping, _LOOK_S)
        except BaseException as error:
            self._error = error
