"""Roles that hosts on other nodes import by name."""

from __future__ import annotations

import time

import numpy as np

from veldt.errors import VeldtError
from veldt.runtime.roles import Control
from veldt.runtime.watchdog import within


def works(control: Control, task: str) -> None:
    attempt, peers = control.restart_count, [control.peers.index, control.peers.count]
    control.send("working", {"attempt": np.array([attempt])}, attempt=attempt, task=task, peers=peers)
    while not control.stopping:
        control.heartbeat()
        time.sleep(0.01)
    control.send("finishing")


def fails(control: Control) -> None:
    control.heartbeat()
    raise ValueError("two and two are five")


def refuses(control: Control) -> None:
    raise VeldtError("it cannot be")


def hangs_at_first(control: Control) -> None:
    if control.restart_count:
        works(control, "again")
    time.sleep(1000)


def is_overdue(control: Control) -> None:
    with within(0.5, lambda: 0, "the answer is overdue"):
        time.sleep(1000)
