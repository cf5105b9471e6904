"""Roles that hosts on other nodes import by name."""

from __future__ import annotations

import time

import numpy as np

from veldt.errors import VeldtError
from veldt.runtime.roles import Control
from veldt.runtime.watchdog import within


def works(control: Control, task: str) -> None:
    attempt, fellows = control.attempt, [control.fellows.index, control.fellows.count]
    control.say("working", {"attempt": np.array([attempt])}, attempt=attempt, task=task, fellows=fellows)
    while not control.stopping:
        control.beat()
        time.sleep(0.01)
    control.say("finishing")


def fails(control: Control) -> None:
    control.beat()
    raise ValueError("two and two are five")


def refuses(control: Control) -> None:
    raise VeldtError("it cannot be")


def hangs_at_first(control: Control) -> None:
    if control.attempt:
        works(control, "again")
    time.sleep(1000)


def is_overdue(control: Control) -> None:
    with within(0.5, lambda: 0, "the answer is overdue"):
        time.sleep(1000)
